"""The one mask of illegal actions: what a logit is where there is no such move."""

import jax
import jax.numpy as jnp

# The least number there is, as mctx masks: below whatever a network answers, however wild, and finite, so that the
# difference of two of them is 0 and not NaN.
ILLEGAL_LOGIT = float(jnp.finfo(jnp.float32).min)


def mask_logits(logits: jax.Array, legal: jax.Array) -> jax.Array:
    """The logits in float32, with ILLEGAL_LOGIT at illegal actions; both are [..., actions].

    Scale and average before masking: half a mask, or the sum of two, is another number or none at all.
    """
    return jnp.where(legal, logits.astype(jnp.float32), ILLEGAL_LOGIT)
