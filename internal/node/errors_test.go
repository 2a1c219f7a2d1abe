package node

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

func TestCodeOfAFailedScriptIsItsCommands(t *testing.T) {
	for text, want := range map[string]string{
		"OOM command not allowed": "OOM",
		"ERR Error running script (call to f_0a): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.": "READONLY",
		"ERR The user executing the script can't run this command or subcommand script: f_0a, on @user_script:1.":                          "NOPERM",
		"ERR syntax error": "ERR",
	} {
		require.Equal(t, want, code(redis.Error(text)))
	}
}

func TestAdviceKeepsTheErrorAndNamesTheRemedy(t *testing.T) {
	for err, remedy := range map[error]string{
		redis.Error("NOPERM no"):           "grant the user",
		redis.Error("OOM no"):              "raise maxmemory",
		redis.Error("READONLY no"):         "the master's address",
		redis.Error("WRONGTYPE no"):        "another name or prefix",
		redis.Error("WRONGPASS no"):        "check the user and the password",
		redis.Error("BUSY no"):             "",
		io.EOF:                             "",
		&UnfitError{Reason: "it is a fox"}: "",
	} {
		advised := Advise(fmt.Errorf("cannot connect: %w", err))
		require.ErrorIs(t, advised, err)
		require.ErrorContains(t, advised, "cannot connect: "+err.Error()+map[bool]string{true: " ("}[remedy != ""])
		require.ErrorContains(t, advised, remedy)
		var unfit *UnfitError
		require.Equal(t, errors.As(err, &unfit), errors.As(advised, &unfit))
	}
}
