/// All subcommands, in the order in which `--help` lists them.
let commands: [Command] = [
    initCommand, serveCommand, checkConfigCommand, doctorCommand, certCheckCommand, userAddCommand, userRemoveCommand,
    userListCommand, userPasswordCommand, userRulesCommand, userImportCommand, userExportCommand, userQRCommand,
    userLinksCommand, userRevokeLinkCommand,
    providerListCommand, providerPauseCommand, providerResumeCommand, providerDisableCommand, providerEnableCommand,
    pushTestCommand, heldListCommand, heldEndCommand,
    drainCommand, upstreamListCommand, upstreamShowCommand, upstreamRetryCommand,
    bucketShowCommand, bucketEmptyCommand, messageListCommand, messageRemoveCommand, deviceShowCommand,
    deviceRemoveCommand, explainCommand, reportCommand, traceCommand, topCommand,
    feedbackPullCommand, metricsCommand, backupCommand, storeCopyCommand, clusterCertCommand, keyAddCommand,
    keyListCommand, keyRemoveCommand, appAddCommand,
    appListCommand, appRemoveCommand, completionCommand, manPageCommand,
]
