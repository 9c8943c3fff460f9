"""One page that shows a run or a comparison to a person."""
