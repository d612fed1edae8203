"""azjax: an AlphaZero laboratory in JAX."""
