"""Fine-tuning of Gemma models: recipes as data, one trainer, thin drivers (one process, torchrun, Ray)."""
