"""What pages do, as plain functions over packs and evals: callable and tested without a screen."""
