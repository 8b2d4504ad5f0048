let metricsCommand = Command(
    name: "metrics", summary: "Print the daemon's metrics in Prometheus format.",
    options: [Command.configOption],
    examples: ["metrics --config /etc/sippushd/sippushd.yaml"]
) { invocation throws(Command.Failure) in
    say(text: try await ControlConnection(invocation).text("/metrics"))
}
