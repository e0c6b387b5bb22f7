// Package users has tests only.
package users
