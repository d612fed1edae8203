"""KLENT (Ota et al. 2026): the network's own values of actions improve its policy, and no move is looked ahead.

    improved(a | s) = softmax over legal a of (Q(s, a) + beta log prior(a | s)) / (alpha + beta)        (equation 3)

is the policy p that maximises E_p[Q(s, a)] - beta KL(p || prior) + alpha H(p) (equation 2): beta keeps it near the
network's policy, so that play changes by small steps, and alpha keeps it from being too sure, so that play goes on
exploring. In self-play moves are drawn from it (algorithm 1, line 10), and the network's policy learns it by
cross-entropy (equation 4). Improved again and again by right action values, it converges to softmax(Q / alpha) (theorem
C.12).

    v(s) = sum over a of improved(a | s) Q(s, a)                                             (algorithm 1, line 9)

is the value found. Of these `azjax.training.targets.td_lambda` makes the lambda-return of every position, which the
value of the move played there learns by its squared error (equation 4). The paper's network has no other value, and
takes v where it is searched with; ours keeps its usual one, which learns the same returns, so that whatever plays with
a network or goes on from its weights does so with this one.

Kazuki Ota, Takayuki Osa, Motoki Omura, Tatsuya Harada: Revisiting Regularized Policy Optimization for Stable and
Efficient Reinforcement Learning in Two-Player Games. ICML 2026, arXiv:2602.10894v2. That a search, too, solves such a
problem is from Grill et al. 2020 (arXiv:2007.12509); divergence and entropy together are in Sokota et al. 2022
(arXiv:2206.05825).
"""

import jax
import jax.numpy as jnp

from azjax.common.legality import mask_logits
from azjax.common.remembered import remembered
from azjax.envs import indexing
from azjax.envs.core import Game, GameState
from azjax.search.core import Search, SearchOutput
from azjax.search.exploration import draw
from azjax.search.tree import AnyParams, Evaluator, first_max, split_key


def improved_logits(
    logits: jax.Array, qvalues: jax.Array, legal: jax.Array, alpha: float, beta: float
) -> jax.Array:
    """Logits [..., actions] of the policy that KLENT improves a prior to (equation 3), masked by `mask_logits`.

    Args:
      logits: [..., actions] of the prior; not those of illegal actions matter, nor what is added to all.
      qvalues: [..., actions] the value of each action to the player to move.
      legal: [..., actions] bool.
      alpha: weight of the entropy.
      beta: weight of the divergence from the prior; one of the two must be above 0.
    """
    return mask_logits((qvalues + beta * jnp.where(legal, logits, 0.0)) / (alpha + beta), legal)


@remembered
def klent(game: Game, evaluate: Evaluator, *, alpha: float = 0.03, beta: float = 0.1) -> Search:
    """KLENT's way to move in self-play, as a search of a single evaluation; the weights are those of the paper.

    Args:
      game: the rules.
      evaluate: returns the prior logits and the values of all actions, see `azjax.nn.make_action_evaluator`.
      alpha: weight of the entropy.
      beta: weight of the divergence from the network's policy.
    """
    if alpha < 0 or beta < 0 or alpha + beta == 0:
        raise ValueError(f"alpha and beta must be at least 0, and one above it, got {alpha} and {beta}")

    def search(params: AnyParams, key: jax.Array, states: GameState) -> SearchOutput:
        legal = jax.vmap(game.legal_action_mask)(states)
        over = jax.vmap(game.is_terminal)(states)
        result = jax.vmap(indexing.take)(jax.vmap(game.rewards)(states), states.current_player)
        evaluate_key, key = split_key(key, 2)
        logits, qvalues = evaluate(params, evaluate_key, states)
        improved = improved_logits(logits, qvalues, legal, alpha, beta)
        policy = jnp.where(legal, jax.nn.softmax(improved), 0.0)
        value = jnp.sum(jnp.where(legal, policy * qvalues, 0.0), -1)
        value = jnp.where(jnp.all(jnp.isfinite(mask_logits(logits, legal)), -1), value, jnp.nan)
        # The largest of logits with Gumbel noise is a draw from their softmax.
        noisy = improved + draw(jax.random.gumbel, key, improved.shape)
        return SearchOutput(
            action=jnp.where(over, 0, first_max(jnp.where(legal, noisy, -jnp.inf))),
            policy=jnp.where(over[:, None], 0.0, policy),
            value=jnp.where(over, result, value),
            visits=jnp.zeros(legal.shape, jnp.int32),
            qvalues=jnp.where(legal, qvalues, 0.0),
            proven=over,
            complete=jnp.ones_like(over),
        )

    return search
