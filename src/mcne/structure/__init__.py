"""How well vectors predict links that training did not see."""
