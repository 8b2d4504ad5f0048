import Control
import PushDelivery

let pushTestCommand = Command(
    name: "push test",
    summary:
        "Send a test push to a user's phones or to a push token, and show the sent push and the provider's answer.",
    arguments: "[\(userArgument)]",
    options: [
        Command.configOption,
        Command.Option(
            name: "--token", value: "TOKEN",
            help:
                "Send the push to this push token ('pn-prid') instead of a user's phones. With '-', the command reads the token from standard input, so that the list of processes does not show the token."
        ),
        Command.Option(
            name: "--provider", value: "PROVIDER", help: "The token's provider (pn-provider).",
            choices: PushProvider.allCases.map(\.rawValue)),
        Command.Option(
            name: "--param", value: "PARAM",
            help: "The app of the push token ('pn-param'), if the provider has several apps."),
        Command.Option(name: "--json", value: nil, help: "Print the answer as JSON."),
    ],
    examples: ["push test bob@example.net", "push test --token - --provider fcm < token"]
) { invocation throws(Command.Failure) in
    let report: PushTestReport = try await ControlConnection(invocation).post(
        "/v1/push-tests", try invocation.pushTest(), timeout: .seconds(60))
    let isGood = report.pushes.contains { $0.isAccepted }
    if try !invocation.printJSON(report) {
        for push in report.pushes { say(push.lines) }
        say("sippushd explain \(report.code) shows this result again")
    }
    guard isGood else { throw .ended(1) }
}

extension Command.Invocation {
    fileprivate func pushTest() throws(Command.Failure) -> PushTestRequest {
        guard let word = value("--token") else {
            guard value("--provider") == nil, value("--param") == nil else {
                throw .usage("--provider and --param are allowed only together with --token")
            }
            return PushTestRequest(user: try onlyUser())
        }
        try expect(arguments: 0)
        guard let provider = value("--provider") else { throw .usage("expected --provider") }
        let token = word == "-" ? readLine(strippingNewline: true) ?? "" : word
        guard !token.isEmpty else { throw .failed("the token is empty") }
        return PushTestRequest(provider: provider, token: token, param: value("--param"))
    }
}

extension PushTestReport.Push {
    var isAccepted: Bool {
        let answer = record?.answer.flatMap(TimelineRecord.Answer.init(rawValue:))
        return answer == .accepted || answer == .acceptedWithNewToken
    }

    /// The test push in words, with advice for the operator.
    var lines: [String] {
        let name = device.map { "device \($0)" } ?? "the token"
        var lines = ["\(name)\(token.isEmpty ? "" : " (\(token))")\(line == nil ? "" : " by \(app)")"]
        if let line {
            lines.append("  sent      " + line)
            for field in fields { lines.append("            " + field) }
            if let body { lines.append("            " + body) }
        }
        if let record {
            let explanation = DeviceExplanation(record, lastRegistered: nil)
            for step in explanation.steps.dropFirst() {
                lines.append("  " + "\(step.time) ms".padded(to: 10) + step.text)
            }
            if let advice = explanation.advice { lines.append("  => " + advice) }
        } else {
            let (reason, cure) = omissionWords
            lines += ["  not sent  " + reason, "  => " + cure]
        }
        return lines
    }

    private var omissionWords: (reason: String, cure: String) {
        switch omission.flatMap(TimelineRecord.Omission.init(rawValue:)) {
        case .ordinaryContact:
            (
                "the phone registered no push token that the daemon can use",
                "Compare the push parameters in the app's REGISTER with the output of sippushd provider list."
            )
        case .notCarried:
            (
                "the token is for calls only, or belongs to no app in the settings",
                "Call the phone to test a VoIP token, because Apple ends an app whose VoIP push is not for a call. docs/Providers.md explains the kinds of push tokens."
            )
        case .deviceLimit:
            (
                "the phone got too many pushes in the last minute",
                "Wait a minute. The settings api.notifications.per-device and call.pushes-per-device limit the pushes to one phone."
            )
        default: ("no push was sent", "sippushd explain shows why no push was sent.")
        }
    }
}
