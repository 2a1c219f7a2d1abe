package printable

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestQuoteAndLineKeepPrintableText(t *testing.T) {
	for _, text := range []string{"", "host:17", "größer 漢字 🔒", `C:\temp`, `it said "no"`, "a  b "} {
		require.Equal(t, text, Quote(text))
		require.Equal(t, text, Line(text))
	}
	require.Equal(t, `"`, Line(`"`))
}

func TestDurationsHaveTwoUnitsOrThreeDigits(t *testing.T) {
	const day = 24 * time.Hour
	for want, d := range map[string]time.Duration{
		"0s": time.Second - 1, "59s": time.Minute - 1, "1m0s": time.Minute, "41m59s": 42*time.Minute - 1, "59m59s": time.Hour - 1, "1h0m": time.Hour,
		"23h59m": day - 1, "1d0h": day, "2d4h": 2*day + 5*time.Hour - 1, "400d23h": 401*day - 1,
	} {
		require.Equal(t, want, Age(d))
	}
	for want, d := range map[string]time.Duration{
		"0s": 0, "457µs": 456_789, "9.88s": 9876 * time.Millisecond, "-1.5s": -1500 * time.Millisecond, "59.9s": 59940 * time.Millisecond, "1m0s": time.Minute - 1,
		"3h5m": 3*time.Hour + 6*time.Minute - 1,
	} {
		require.Equal(t, want, Duration(d))
	}
}

func TestQuoteAndLineEscapeOtherText(t *testing.T) {
	for text, want := range map[string]struct{ quoted, line string }{
		"a\nb: free":    {`"a\nb: free"`, `a\nb: free`},
		"\x1b[2Jgone":   {`"\x1b[2Jgone"`, `\x1b[2Jgone`},
		"\u009b2J":      {`"\u009b2J"`, `\u009b2J`},         // the C1 form of ESC [
		"\u202eneddih":  {`"\u202eneddih"`, `\u202eneddih`}, // from right to left
		"\xff\ufffd":    {`"\xff�"`, `\xff�`},
		"tab\there \"":  {`"tab\there \""`, `tab\there "`},
		`"seems quoted`: {`"\"seems quoted"`, `"seems quoted`},
	} {
		require.Equal(t, want.quoted, Quote(text))
		require.Equal(t, want.line, Line(text))
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b[31m\xff\u202e\"\\")
	f.Fuzz(func(t *testing.T, text string) {
		for _, shown := range []string{Quote(text), Line(text)} {
			require.True(t, utf8.ValidString(shown))
			require.True(t, isPrintable(shown))
			require.Equal(t, shown, Line(shown))
		}
	})
}

func TestCutShortensLongValues(t *testing.T) {
	long := strings.Repeat("x", 200)
	require.Equal(t, long, Cut(long))
	require.Equal(t, long+"… (5000 bytes)", Cut(strings.Repeat("x", 5000)))
}
