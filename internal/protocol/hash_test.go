package protocol

import (
	"crypto/fips140"
	"crypto/sha1" //nolint:gosec // what Redis uses
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHashIsThatOfRedis(t *testing.T) {
	require.Equal(t, "a9993e364706816aba3e25717850c26c9cd0d89d", HashOf("abc"), "RFC 3174")
	require.Equal(t, "84983e441c3bd26ebaae4aa1f95129e5e54670f1", HashOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), "RFC 3174")
	if fips140.Enabled() {
		t.Skip("FIPS 140-3 may forbid crypto/sha1")
	}
	texts := []any{}
	for length := range 200 {
		texts = append(texts, strings.Repeat("é", length/2)+strings.Repeat("x", length%2))
	}
	for _, s := range All {
		texts = append(texts, s.Text())
		require.Equal(t, HashOf(s.Text().(string)), s.SHA())
	}
	for _, text := range texts {
		sum := sha1.Sum([]byte(text.(string))) //nolint:gosec
		require.Equal(t, hex.EncodeToString(sum[:]), HashOf(text.(string)), text)
	}
}
