//go:build tools

// Package tools pins the programs that the tests against real parts run.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
)
