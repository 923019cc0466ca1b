"""What a read is: the whole vocabulary's log-softmax, then the wanted columns. The oracle."""

import torch


def read_options(
    hidden: torch.Tensor,
    head: torch.Tensor,
    column_start: torch.Tensor,
    columns: torch.Tensor,
    soft_cap: float | None,
) -> torch.Tensor:
    """Log-probabilities; hidden [R, C], head [V, C], columns of row r between its starts."""
    logits = hidden @ head.T
    if soft_cap is not None:
        logits = soft_cap * torch.tanh(logits / soft_cap)
    logprobs = logits - torch.logsumexp(logits, -1, keepdim=True)
    every = torch.arange(len(hidden), device=hidden.device)
    rows = torch.repeat_interleave(every, column_start.diff())
    return logprobs[rows, columns]
