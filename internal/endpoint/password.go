package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
)

// passwordField is the field of a URL's query that names the file of the password.
const passwordField = "passwordfile"

// maxPassword is more bytes than a password has.
const maxPassword = 4096

// PasswordError is why the file of a password cannot be used. It repeats nothing of what the file has.
type PasswordError struct{ Why error }

func (e *PasswordError) Error() string { return "the password file: " + e.Why.Error() }

func (e *PasswordError) Unwrap() error { return e.Why }

// login reads from a URL who logs in, and takes the field of the password out of the query.
func (e *Endpoint) login(u *url.URL, query url.Values) error {
	e.Username = u.User.Username()
	e.Password, _ = u.User.Password()
	files, given := query[passwordField]
	query.Del(passwordField)
	switch {
	case given && (len(files) != 1 || files[0] == ""):
		return fmt.Errorf("its field %s must have one value", passwordField)
	case given && e.Password != "":
		return fmt.Errorf("it has a password, and the field %s too: which one counts?", passwordField)
	case given:
		e.PasswordFile = files[0]
	case e.Password == "" && e.Username != "":
		return errors.New("it has a user without a password, or a password without a colon: write redis://user:password@host, redis://:password@host, " +
			"or redis://user@host?" + passwordField + "=file")
	}
	return nil
}

// Credentials returns who logs in. The file of a password is read at each call, since it may be replaced.
func (e Endpoint) Credentials(context.Context) (user, password string, err error) {
	if e.PasswordFile == "" {
		return e.Username, e.Password, nil
	}
	if password, err = readPassword(e.PasswordFile); err != nil {
		return "", "", &PasswordError{err}
	}
	return e.Username, password, nil
}

// readPassword returns the one line of a file. What is no file could block, or be read once only.
func readPassword(name string) (string, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPassword+1))
	password := strings.TrimRight(string(text), "\r\n")
	switch {
	case err != nil:
		return "", err
	case len(text) > maxPassword:
		return "", fmt.Errorf("%s has more than %d bytes", name, maxPassword)
	case password == "":
		return "", fmt.Errorf("%s is empty", name)
	case strings.ContainsAny(password, "\r\n"):
		return "", fmt.Errorf("%s has several lines: the password is the only one", name)
	}
	return password, nil
}
