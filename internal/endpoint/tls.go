package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"
)

// TLS is how a server and this client prove to each other who they are. The zero value trusts the
// system's certificate authorities, and has no certificate of its own.
type TLS struct {
	CA         string // file of the authorities that are trusted instead of the system's, in PEM
	Cert, Key  string // files of this client's certificate and its key, in PEM; both or none
	ServerName string // the name in the server's certificate; "": the host of the URL
}

// parseTLS reads the query of a URL.
func parseTLS(query url.Values) (TLS, error) {
	var t TLS
	fields := map[string]*string{"ca": &t.CA, "cert": &t.Cert, "key": &t.Key, "servername": &t.ServerName}
	for key, values := range query {
		field := fields[key]
		switch {
		case field == nil:
			return t, errors.New("its query has a field that is not known: ca, cert, key and servername are")
		case len(values) != 1 || values[0] == "":
			return t, fmt.Errorf("its field %s must have one value", key)
		}
		*field = values[0]
	}
	if (t.Cert == "") != (t.Key == "") {
		return t, errors.New("it has one of cert and key: a certificate needs both")
	}
	return t, nil
}

// Config reads the files. host is the server's.
func (t TLS) Config(host string) (*tls.Config, error) {
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if t.ServerName != "" {
		config.ServerName = t.ServerName
	}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("cannot read the certificate authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate in PEM form", t.CA)
		}
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("cannot load the certificate %s with the key %s: %w", t.Cert, t.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Check reports what is wrong with the files that the URL names, if anything is.
func (e Endpoint) Check() error {
	if e.TLS == nil {
		return nil
	}
	_, err := e.TLS.Config("")
	return err
}

// dialSocket connects to the server. The files of the certificates are read at each connection, since they
// may be renewed.
func (e Endpoint) dialSocket(ctx context.Context) (net.Conn, error) {
	dialer := net.Dialer{KeepAlive: 15 * time.Second}
	if e.TLS == nil {
		return dialer.DialContext(ctx, e.Network, e.Address)
	}
	host, _, err := net.SplitHostPort(e.Address)
	if err != nil {
		return nil, err
	}
	config, err := e.TLS.Config(host)
	if err != nil {
		return nil, err
	}
	return (&tls.Dialer{NetDialer: &dialer, Config: config}).DialContext(ctx, e.Network, e.Address)
}
