//go:build go1.26

package httpfake

func emptyPools() {}
