echo no interpreter and no options
