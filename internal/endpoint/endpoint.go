package endpoint

import (
	"errors"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Endpoint is a server's address, and the settings of a connection to it.
type Endpoint struct {
	Network  string // "tcp" or "unix"
	Address  string // host:port, or a path
	TLS      *TLS   // nil: none
	Username string
	Password string
	DB       int

	PasswordFile string // has the password, instead; "": none
}

// Parse reads redis://[user:password@]host[:port][/db], rediss:// for the same with TLS and
// ?ca=file&cert=file&key=file&servername=name, valkey:// and valkeys:// with the meanings of
// these two, and unix://[user:password@]/path/to/socket[?db=n]. Each may have passwordfile=file in its query.
//
// Its errors repeat no part of the URL: a password may stand anywhere in a URL that is
// not well formed.
func Parse(raw string) (Endpoint, error) {
	if namesSeveral(raw) {
		return Endpoint{}, errors.New("it seems to name several servers: give each server a URL of its own; in a user or password, write , as %2C, " + escapes)
	}
	if err := findStray(raw); err != nil {
		return Endpoint{}, err
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil && !strings.Contains(raw, "://"), err == nil && (u.Scheme == "" || u.Opaque != ""):
		return Endpoint{}, errors.New("it must look like redis://host:port")
	case err != nil: // url.Error repeats the URL
		return Endpoint{}, errors.New("it cannot be parsed as a URL: it must look like redis://host:port; in a user or password, write " + escapes)
	case hasAtBehindAddress(u):
		// What precedes it may be a part of the password, and so may what seems to be the port.
		return Endpoint{}, errors.New("it has an @ behind the address: in a user or password, write " + escapes)
	case u.Fragment != "":
		return Endpoint{}, errors.New("it has a # behind the address: it must look like redis://host:port")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Endpoint{}, errors.New("its query cannot be parsed")
	}
	var e Endpoint
	if err := e.login(u, query); err != nil {
		return Endpoint{}, err
	}
	switch u.Scheme {
	case "redis", "valkey":
		return e.tcp(u, query)
	case "rediss", "valkeys":
		e.TLS = &TLS{}
		return e.tcp(u, query)
	case "unix":
		return e.unix(u, query)
	}
	return Endpoint{}, errors.New("unknown scheme: want redis, rediss, valkey, valkeys or unix")
}

// findStray names what surrounds a URL, or stands in it, where a file or a shell passed more on than the URL.
func findStray(raw string) error {
	const quotes = "\"'`“”‘’"
	first, _ := utf8.DecodeRuneInString(raw)
	last, _ := utf8.DecodeLastRuneInString(raw)
	switch {
	case raw == "":
		return nil
	case strings.ContainsRune(quotes, first) || strings.ContainsRune(quotes, last):
		return errors.New("it begins or ends with a quote: leave the quotes out (crontabs and files of variables pass them on)")
	case strings.Contains(raw, "\r"):
		return errors.New("it has a carriage return: the file that it comes from has the line ends of Windows; save it with those of Unix")
	case strings.ContainsAny(raw, "\n\t "):
		return errors.New("it has a line end, a tab or a space: leave it out; in a password, write a space as %20")
	}
	return nil
}

const escapes = "/ as %2F, ? as %3F, # as %23, @ as %40 and % as %25"

// namesSeveral reports whether a URL seems to be a list of servers. url.Parse reads such
// a list as one server, with commas in the name of its host or in its password.
func namesSeveral(raw string) bool {
	_, rest, found := strings.Cut(raw, "://")
	switch {
	case !found || !strings.Contains(rest, ","):
		return false
	case strings.Contains(rest, "://"):
		return true
	}
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	at := strings.LastIndex(authority, "@")
	user, host := authority[:max(at, 0)], authority[at+1:]
	return strings.Contains(host, ",") || strings.Contains(user, ",") && strings.Contains(user, "@")
}

// hasAtBehindAddress reports whether an @ stands where no user and password can precede
// it. The path to a socket may have one, but not at the end of a directory's name: that
// is how a password ends that begins with a slash.
func hasAtBehindAddress(u *url.URL) bool {
	inPath := strings.Contains(u.Path, "@")
	if u.Scheme == "unix" {
		inPath = strings.Contains(u.EscapedPath(), "@/")
	}
	return inPath || strings.Contains(u.RawQuery, "@") || strings.Contains(u.Fragment, "@")
}

func (e Endpoint) tcp(u *url.URL, query url.Values) (Endpoint, error) {
	if e.TLS == nil && len(query) > 0 {
		return e, errors.New("its query has a field that is not known: without TLS only passwordfile is, and db where it begins with unix://")
	}
	if e.TLS != nil {
		var err error
		if *e.TLS, err = parseTLS(query); err != nil {
			return e, err
		}
	}
	host, port := u.Hostname(), u.Port()
	if host == "" {
		return e, errors.New("it names no host")
	}
	if port == "" {
		port = "6379"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return e, errors.New("its port is not between 1 and 65535")
	}
	e.Network, e.Address = "tcp", net.JoinHostPort(host, port)
	return e.database(strings.Trim(u.Path, "/"))
}

func (e Endpoint) unix(u *url.URL, query url.Values) (Endpoint, error) {
	for key := range query {
		if key != "db" {
			return e, errors.New("its query has a field that is not known: only db and passwordfile are")
		}
	}
	if u.Host != "" || !path.IsAbs(u.Path) || u.Path == "/" {
		return e, errors.New("it must look like unix:///path/to/socket")
	}
	e.Network, e.Address = "unix", u.Path
	return e.database(query.Get("db"))
}

func (e Endpoint) database(s string) (Endpoint, error) {
	if s == "" {
		return e, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return e, errors.New("its database is not a number")
	}
	e.DB = n
	return e, nil
}

// Connector returns what makes connections to the server.
func (e Endpoint) Connector() *Connector {
	c := &Connector{Dial: e.dialSocket, Database: e.DB}
	if e.Password != "" || e.PasswordFile != "" {
		c.Credentials = e.Credentials
	}
	return c
}
