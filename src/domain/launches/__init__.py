"""How an instance comes into the world: launch, approval, adoption, and who writes where."""
