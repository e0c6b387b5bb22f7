package fleet

import (
	"strings"
	"unicode/utf8"

	"example.com/awsretry/internal/redact"
)

// longestText limits the text of an error, in bytes.
const longestText = 400

// A shownError is an error whose text is safe for a log or a terminal.
type shownError struct {
	text string
	err  error
}

func (e *shownError) Error() string { return e.text }
func (e *shownError) Unwrap() error { return e.err }

// shown returns err with a text of one short line without control characters.
// Parts of it may come from the store.
func shown(err error) error {
	text := strings.ToValidUTF8(err.Error(), string(utf8.RuneError))
	if len(text) > longestText {
		text = strings.ToValidUTF8(text[:longestText], "") + "…"
	}
	text = strings.NewReplacer("\n", " ", "\t", " ").Replace(redact.Text(text))
	if text == err.Error() {
		return err
	}
	return &shownError{text, err}
}
