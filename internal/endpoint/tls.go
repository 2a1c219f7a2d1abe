package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"syscall"
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
			return t, errors.New("its query has a field that is not known: ca, cert, key, servername and passwordfile are")
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
	if _, _, err := e.Credentials(context.Background()); err != nil || e.TLS == nil {
		return err
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
	plain, err := dialer.DialContext(ctx, e.Network, e.Address)
	if err != nil {
		return nil, err
	}
	secure := tls.Client(plain, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = plain.Close()
		return nil, &TLSError{err}
	}
	return secure, nil
}

// TLSError is why a server and this client did not agree on TLS, over a connection that was made.
type TLSError struct{ Why error }

// Error asks about the server if its bytes, or their absence, are not what a server with TLS sends. A plain Redis server
// does not answer the first bytes of TLS.
func (e *TLSError) Error() string {
	if !e.IsPlain() {
		return "TLS: " + e.Why.Error()
	}
	return "TLS: " + e.Why.Error() + ": is this a Redis server, and does it speak TLS at this port? (redis:// is for a server without it)"
}

func (e *TLSError) Unwrap() error { return e.Why }

// IsPlain reports whether the server may be one without TLS: it sent something else, closed the connection, or was silent.
func (e *TLSError) IsPlain() bool {
	var record tls.RecordHeaderError
	var network net.Error
	return errors.As(e.Why, &record) || errors.Is(e.Why, io.EOF) || errors.Is(e.Why, syscall.ECONNRESET) || errors.Is(e.Why, syscall.EPIPE) ||
		errors.Is(e.Why, context.DeadlineExceeded) || errors.As(e.Why, &network) && network.Timeout()
}

// Expiry is when certificates end. The zero time is for none.
type Expiry struct{ Server, Client time.Time }

// Expiry connects to the server, and returns when the certificates end with which it and this client prove who they
// are. Of a chain the first one to end counts; of several chains that prove the same, the last one.
func (e Endpoint) Expiry(ctx context.Context) (Expiry, error) {
	if e.TLS == nil {
		return Expiry{}, nil
	}
	socket, err := e.dialSocket(ctx)
	if err != nil {
		return Expiry{}, err
	}
	defer socket.Close()
	var ends Expiry
	for _, chain := range socket.(*tls.Conn).ConnectionState().VerifiedChains {
		first := slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
		if first.NotAfter.After(ends.Server) {
			ends.Server = first.NotAfter
		}
	}
	if e.TLS.Cert != "" {
		pair, err := tls.LoadX509KeyPair(e.TLS.Cert, e.TLS.Key)
		if err != nil {
			return ends, err
		}
		ends.Client = pair.Leaf.NotAfter
	}
	return ends, nil
}
