//go:build tools

// Package tools pins the programs that the tests against real parts run.
package tools

import (
	_ "github.com/kubernetes-csi/external-attacher/v4/cmd/csi-attacher"
)
