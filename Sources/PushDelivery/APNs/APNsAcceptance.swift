import Bytes

/// Which of Apple's tokens are those of our apps.
struct APNsAcceptance: TokenAcceptance {
    private struct App {
        let topics: APNsTopics
        let team: ByteString?
    }

    private var apps: [App] = []

    init(_ settings: APNsSettings) {
        for app in [settings] + settings.apps.values.filter(\.enabled) {
            apps.append(App(topics: APNsTopics(app.topics), team: app.teamID.map { ByteString($0) }))
        }
    }

    func problem(with token: PushToken) -> TokenProblem? {
        guard APNsToken.hasForm(token.prid) else { return .appleToken }
        let name = APNsTopics.Name(token.param)
        guard name.topic != nil else {
            // Without a topic in pn-param there must be one app with one topic.
            return apps.count == 1 && apps.first?.topics.only != nil ? nil : .appleParamMissing
        }
        let meant = apps.filter { $0.topics.topic(of: name) != nil }
        guard !meant.isEmpty else { return .appleTopic }
        guard let team = name.team else { return nil }
        return meant.contains { $0.team == nil || $0.team == team } ? nil : .appleTeam
    }

    func app(of token: PushToken, in apps: [ByteString: PushApp.ID]) -> PushApp.ID? {
        APNsTopics.Name(token.param).names.lazy.compactMap { apps[$0] }.first
    }
}

/// The topics of one app, and which of them a `pn-param` means (A28, P8): the one that it names, if the app serves it.
/// One that names none means the only one that there is.
struct APNsTopics: Hashable {
    /// Empty: whatever `pn-param` names.
    private let topics: [ByteString]

    init(_ topics: [String]) { self.topics = topics.map { ByteString($0) } }

    /// What a `pn-param` says of the app.
    struct Name {
        /// The topic, `com.example.phone` for example; `nil` when none is named, as in ECSS-10's own values.
        let topic: ByteString?
        /// The same text with its first word, which apps that leave the team out mean as a part of the topic.
        fileprivate let whole: ByteString?
        /// The team; `nil` when what stands in its place has not the form of one, as with the made-up words of clients
        /// that do not know theirs.
        let team: ByteString?

        init(_ param: ByteString) {
            let bundle = APNsToken.bundle(in: param)
            // A value of ECSS-10's own, with nothing but a service behind its dot.
            topic = bundle.flatMap { APNsToken.Service(rawValue: $0.string) == nil ? $0 : nil }
            whole = topic.flatMap { topic in
                param.firstIndex(of: UInt8(ascii: ".")).map { param[0..<min(param.count, $0 + 1 + topic.count)] }
            }
            let word = param[0..<(param.firstIndex(of: UInt8(ascii: ".")) ?? 0)]
            team = word.isAppleTeam ? word : nil
        }

        /// What it may mean, the likelier first.
        var names: [ByteString] { [topic, whole].compactMap(\.self) }
    }

    /// The only one.
    var only: ByteString? { topics.count == 1 ? topics.first : nil }

    func topic(of name: Name) -> ByteString? {
        guard let topic = name.topic else { return only }
        if topics.isEmpty || topics.contains(topic) { return topic }
        return name.whole.flatMap { whole in topics.first { $0 == whole } }
    }
}

extension APNsToken {
    /// How many hexadecimal digits a token has at least. Apple may make them longer.
    private static let shortestToken = 64

    /// Whether a `pn-prid` has nothing but tokens of Apple's form, each perhaps with its service behind a colon. Which
    /// services there are is not looked at.
    static func hasForm(_ prid: ByteString) -> Bool {
        prid.parts(separatedBy: UInt8(ascii: "&")).allSatisfy { part in
            let token = part[0..<(part.firstIndex(of: UInt8(ascii: ":")) ?? part.count)]
            return token.count >= shortestToken && token.isHexadecimal
        }
    }
}

extension ByteString {
    /// Whether all of it is hexadecimal digits.
    var isHexadecimal: Bool { allSatisfy { $0.hexValue != nil } }

    /// Whether it has the form of Apple's team identifiers: ten capital letters and digits.
    fileprivate var isAppleTeam: Bool {
        count == 10 && allSatisfy { $0.isASCIIDigit || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
    }
}
