package main

import (
	"errors"
	"net/url"

	"github.com/spf13/pflag"
)

// tlsFlags are the flags for nodes with TLS. Each is for the URLs that do not say it themselves.
type tlsFlags struct {
	ca, cert, key, serverName string
}

func (t *tlsFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&t.ca, "tls-ca", "", "`file` of the certificate authorities to trust, in PEM, for rediss:// URLs "+
		"without ?ca= (default the system's)")
	flags.StringVar(&t.cert, "tls-cert", "",
		"`file` of this client's certificate, in PEM, for rediss:// URLs without ?cert=")
	flags.StringVar(&t.key, "tls-key", "", "`file` of the key of --tls-cert, in PEM")
	flags.StringVar(&t.serverName, "tls-server-name", "",
		"`name` in the nodes' certificates, for rediss:// URLs without ?servername= (default the host of the URL)")
}

// addTo returns the URLs with the flags as their parameters. They must be well formed.
func (t *tlsFlags) addTo(urls []string) ([]string, error) {
	switch {
	case *t == tlsFlags{}:
		return urls, nil
	case (t.cert == "") != (t.key == ""):
		return nil, errors.New("--tls-cert and --tls-key belong together: one is missing")
	}
	secure := 0
	added := make([]string, len(urls))
	for i, raw := range urls {
		u, err := url.Parse(raw)
		if err != nil {
			return nil, errors.New("a URL cannot be parsed") // the error of url.Parse repeats the URL
		}
		if u.Scheme == "rediss" || u.Scheme == "valkeys" {
			secure++
			u.RawQuery = t.query(u.Query()).Encode()
		}
		added[i] = u.String()
	}
	if secure == 0 {
		return nil, errors.New("the flags --tls-… are for rediss:// and valkeys:// URLs, and no node has one")
	}
	return added, nil
}

// query adds what a URL's query does not say.
func (t *tlsFlags) query(query url.Values) url.Values {
	add := func(field, value string) {
		if value != "" && !query.Has(field) {
			query.Set(field, value)
		}
	}
	add("ca", t.ca)
	add("servername", t.serverName)
	if !query.Has("cert") {
		add("cert", t.cert)
		add("key", t.key)
	}
	return query
}
