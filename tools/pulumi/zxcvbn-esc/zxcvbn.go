// Package zxcvbn takes the place of a library that reads dictionaries whenever the engine starts: half of the start.
// With them the engine asks whether a plain value of `config set` should be a secret. A rehearsal never asks that.
package zxcvbn

type Strength struct {
	Entropy float64
}

// PasswordStrength finds that no value looks like a secret.
func PasswordStrength(string, []string) Strength {
	return Strength{}
}
