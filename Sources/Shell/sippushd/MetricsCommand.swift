let metricsCommand = Command(
    name: "metrics", summary: "Print the daemon's figures as Prometheus reads them.", arguments: "",
    options: [Command.configOption]
) { invocation throws(Command.Failure) in
    try invocation.expect(arguments: 0)
    say(text: try await ControlConnection(invocation).text("/metrics"))
}
