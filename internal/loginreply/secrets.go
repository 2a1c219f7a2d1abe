package loginreply

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	// windowBytes is how many successive bytes of a secret a text can have by chance only. A server may repeat a part of
	// a long one.
	windowBytes = 8

	// wordBytes is the length below which a secret is found only as a word of its own: it is a part of many texts.
	wordBytes = 4

	// maxSearched is the length above which a text counts as repeating every secret: it is not searched.
	maxSearched = 4 << 10
)

// Secrets are the passwords that were sent over a connection.
type Secrets struct {
	plain []string
	forms []string // as servers and Go's own errors may write them, in lower case
}

// New makes the Secrets of these passwords. It returns nil if all are empty.
func New(passwords ...string) *Secrets {
	s := &Secrets{}
	for _, p := range passwords {
		if p == "" {
			continue
		}
		s.plain = append(s.plain, p)
		quoted := strconv.Quote(p)
		ascii := strconv.QuoteToASCII(p)
		for _, form := range []string{p, quoted[1 : len(quoted)-1], ascii[1 : len(ascii)-1], redisQuote(p), strings.NewReplacer("\r", " ", "\n", " ").Replace(p),
			url.QueryEscape(p), url.PathEscape(p), base64.StdEncoding.EncodeToString([]byte(p)), hex.EncodeToString([]byte(p))} {
			s.forms = append(s.forms, strings.ToLower(form))
		}
	}
	if s.plain == nil {
		return nil
	}
	return s
}

// With returns the Secrets of s, which may be nil, and one more password.
func (s *Secrets) With(password string) *Secrets {
	if s == nil {
		return New(password)
	}
	if slices.Contains(s.plain, password) {
		return s
	}
	return New(append([]string{password}, s.plain...)...)
}

// In reports whether a text repeats a secret or a part of a long one, also in upper case, escaped or encoded.
func (s *Secrets) In(text string) bool {
	if s == nil || text == "" {
		return false
	}
	if len(text) > maxSearched {
		return true
	}
	text = strings.ToLower(text)
	for _, form := range s.forms {
		if repeats(text, form) {
			return true
		}
	}
	return false
}

// has reports whether a secret has the word, in any case.
func (s *Secrets) has(word string) bool {
	word = strings.ToLower(word)
	for _, p := range s.plain {
		if strings.Contains(strings.ToLower(p), word) {
			return true
		}
	}
	return false
}

// repeats reports whether text has the form of a secret, or a window of it.
func repeats(text, form string) bool {
	switch {
	case len(form) < wordBytes:
		return hasWord(text, form)
	case len(form) <= windowBytes:
		return strings.Contains(text, form)
	}
	for i := 0; i+windowBytes <= len(text); i++ {
		if strings.Contains(form, text[i:i+windowBytes]) {
			return true
		}
	}
	return false
}

// hasWord reports whether text has the word, with no letter or digit at either side.
func hasWord(text, word string) bool {
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return false
		}
		begin, end := at+i, at+i+len(word)
		if (begin == 0 || !isWordByte(text[begin-1])) && (end == len(text) || !isWordByte(text[end])) {
			return true
		}
		at = begin + 1
	}
}

func isWordByte(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}

// redisQuote returns a text as servers escape it: bytes above ASCII one by one.
func redisQuote(text string) string {
	var quoted strings.Builder
	for _, b := range []byte(text) {
		switch {
		case b == '\\' || b == '"':
			quoted.WriteByte('\\')
			quoted.WriteByte(b)
		case b >= ' ' && b <= '~':
			quoted.WriteByte(b)
		default:
			escape := strconv.Quote(string([]byte{b}))
			if b >= 0x80 || strings.Contains(escape, `\u`) {
				escape = `"\x` + hex.EncodeToString([]byte{b}) + `"`
			}
			quoted.WriteString(escape[1 : len(escape)-1])
		}
	}
	return quoted.String()
}
