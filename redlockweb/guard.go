package redlockweb

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/redlock-go/redlock/internal/printable"
)

// policy lets a browser load the page's own style and script alone, and nothing that stands in the page's text.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'"

// setHeaders sets what all answers have. A stricter Referrer-Policy would take the Origin from the page's own forms.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// refuses returns why a request is refused, whatever it asks for; "" if it is not.
func (h *Handler) refuses(r *http.Request) string {
	switch reads := r.Method == http.MethodGet || r.Method == http.MethodHead; {
	case !h.knowsHost(r):
		return "the Host of this request is none of the page's: the program that serves it must name it (WithHosts, redlock watch --host)"
	case reads:
		return ""
	case !h.opts.unlock:
		return "this page is read-only"
	case r.Method != http.MethodPost || r.URL.Path != "/unlock":
		return "this address is read-only"
	}
	return h.refusesOrigin(r)
}

// refusesOrigin returns why a request that changes something does not come from the page; "" if it does. A
// request that names no origin is none of a browser's that is up to date.
func (h *Handler) refusesOrigin(r *http.Request) string {
	if r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" {
		return "the request does not say from which page it comes"
	}
	if err := h.origins.Check(r); err != nil {
		return "the request comes from another site"
	}
	return ""
}

// hasToken reports whether a form is one of the page's.
func (h *Handler) hasToken(r *http.Request) bool {
	return subtle.ConstantTimeCompare([]byte(r.PostFormValue("token")), []byte(h.token)) == 1
}

// knowsHost reports whether the Host is one by which the page is reached: a foreign name that resolves to this
// machine is none. An address cannot be such a name.
func (h *Handler) knowsHost(r *http.Request) bool {
	whole := strings.ToLower(r.Host)
	name, _, err := net.SplitHostPort(whole)
	if err != nil {
		name = strings.Trim(whole, "[]")
	}
	isListed := func(listed string) bool {
		listed = strings.ToLower(listed)
		return listed == whole || listed == name
	}
	if name == "localhost" || slices.ContainsFunc(h.opts.hosts, isListed) {
		return true
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	if ip = ip.Unmap(); ip.IsLoopback() {
		return true
	}
	local, is := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return is && local.AddrPort().Addr().Unmap().WithZone("") == ip.WithZone("")
}

// line makes an error's text safe to print.
func line(err error) string { return printable.Line(err.Error()) }
