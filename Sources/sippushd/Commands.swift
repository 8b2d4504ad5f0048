/// Every subcommand, in the order `--help` lists them.
let commands: [Command] = [
    serveCommand, checkConfigCommand, userAddCommand, userRemoveCommand, userListCommand, userPasswordCommand,
    providerListCommand, providerDisableCommand, providerEnableCommand, heldListCommand, bucketShowCommand,
    bindingShowCommand, explainCommand, feedbackPullCommand, keyAddCommand, keyListCommand, keyRemoveCommand,
]
