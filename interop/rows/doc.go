// Package rows measures clients with their own retries beside the same clients over a
// Transport, as docs/CLIENTS.md describes it, and prints the table of that page.
package rows
