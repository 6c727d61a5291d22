# complete.zsh FOLDER BIN TEXT - prints what zsh makes of a command line when Tab is pressed
#
# FOLDER has the completion, BIN the command.  An interactive shell runs on a pseudo terminal;
# Ctrl-X is bound to a function that shows the line.
zmodload zsh/zpty || exit
zpty shell "TERM=dumb zsh -f -i" || exit
zpty -w shell "fpath=($1 \$fpath); path=($2 \$path); autoload -Uz compinit; compinit -D -u; \
	show() { print; print -r -- \"<<\$BUFFER>>\" }; zle -N show; bindkey '^X' show; print is''ready"
zpty -r shell ignored '*isready*'
zpty -n -w shell "$3"$'\t\x18'
zpty -r shell line '*<<*>>*'
line=${line##*'<<'}
print -r -- ${line%%'>>'*}
