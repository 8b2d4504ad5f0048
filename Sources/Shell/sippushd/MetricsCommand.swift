let metricsCommand = Command(
    name: "metrics", summary: "Print the daemon's metrics in Prometheus format.", arguments: "",
    options: [Command.configOption],
    examples: ["metrics --config /etc/sippushd/sippushd.yaml"]
) { invocation throws(Command.Failure) in
    try invocation.expect(arguments: 0)
    say(text: try await ControlConnection(invocation).text("/metrics"))
}
