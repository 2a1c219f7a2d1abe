package overview_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/endpoint"
	"github.com/redlock-go/redlock/internal/overview"
)

func TestAPasswordThatCannotBeReadIsNoDeadServer(t *testing.T) {
	err := fmt.Errorf("cannot connect: no credentials: %w", &endpoint.PasswordError{Why: errors.New("it is empty")})
	c := overview.CauseOf(err, false)
	require.Equal(t, "password", c.Code)
	require.Contains(t, c.Remedy, "--password-file")
}
