"""What a run leaves: adapter, merged model, weights beside it, and the push to the Hub."""
