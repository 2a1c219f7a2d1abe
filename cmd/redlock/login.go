package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/redlock-go/redlock/internal/endpoint"
)

const passwordFileEnv = "REDLOCK_PASSWORD_FILE"

// loginFlags are the flags for the login at nodes whose URLs have no password.
type loginFlags struct{ passwordFile string }

func (l *loginFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&l.passwordFile, "password-file", "",
		"`file` with the password, read at each connection, for URLs without one, such as "+
			"redis://user@host (default $"+passwordFileEnv+")")
}

// addTo returns the URLs. Those without a password get the file as a field of their queries. A URL that is wrong stays
// wrong.
func (l *loginFlags) addTo(urls []string) ([]string, error) {
	file := cmp.Or(l.passwordFile, os.Getenv(passwordFileEnv))
	if file == "" {
		return urls, nil
	}
	from := "--password-file"
	if l.passwordFile == "" {
		from = passwordFileEnv
	}
	if _, _, err := (endpoint.Endpoint{PasswordFile: file}).Credentials(context.Background()); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	added := slices.Clone(urls)
	for i, raw := range urls {
		u, err := url.Parse(raw)
		if err != nil {
			continue
		}
		if _, has := u.User.Password(); has || u.Query().Has("passwordfile") {
			continue
		}
		separator := "?"
		if strings.Contains(raw, "?") {
			separator = "&"
		}
		added[i] = raw + separator + "passwordfile=" + url.QueryEscape(file)
	}
	if slices.Equal(added, urls) {
		return nil, fmt.Errorf("%s: no node takes it, since all URLs have a password of their own: which one counts?",
			from)
	}
	return added, nil
}
