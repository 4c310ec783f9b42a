//go:build tools

// Package tools pins the programs that the tests against real parts run.
package tools

import (
	_ "sigs.k8s.io/krew/cmd/krew"
)
