# complete.zsh FOLDER BIN TEXT - what zsh makes of a command line when Tab is pressed
#
# FOLDER has the completion, BIN the command.  The shell is an interactive one on a pseudo
# terminal of its own; a key of its own then shows the line.
zmodload zsh/zpty || exit
zpty shell "TERM=dumb zsh -f -i" || exit
zpty -w shell "fpath=($1 \$fpath); path=($2 \$path); autoload -Uz compinit; compinit -D -u; \
	show() { print; print -r -- \"<<\$BUFFER>>\" }; zle -N show; bindkey '^X' show; print is''ready"
zpty -r shell ignored '*isready*'
zpty -n -w shell "$3"$'\t\x18'
zpty -r shell line '*<<*>>*'
line=${line##*'<<'}
print -r -- ${line%%'>>'*}
