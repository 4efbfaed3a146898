"""sesh keeps long-running terminal sessions in tmux and tells the truth about them."""

__version__ = "0.2.0"
