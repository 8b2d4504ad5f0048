import Bytes

/// Decides whether an Apple push token is for one of the apps in the settings.
struct APNsAcceptance: TokenAcceptance {
    private struct App {
        let topics: APNsTopics
        let team: ByteString?
    }

    private var apps: [App] = []

    init(_ settings: APNsSettings) {
        for app in settings.enabledApps {
            apps.append(App(topics: APNsTopics(app.topics), team: app.teamID.map { ByteString($0) }))
        }
    }

    func problem(with token: PushToken) -> TokenProblem? {
        guard APNsToken.hasForm(token.prid) else { return .appleToken }
        let name = APNsTopics.Name(token.param)
        guard name.topic != nil else {
            // A `pn-param` without a topic is accepted only if the settings have one app with one topic.
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

/// The bundle identifiers (topics) of one app (A28, P8). A push uses the topic in `pn-param` or, without a topic in
/// `pn-param`, the app's only topic.
struct APNsTopics: Hashable {
    /// The app's topics, from the settings. An empty list of topics accepts any topic in `pn-param`.
    private let topics: [ByteString]

    init(_ topics: [String]) { self.topics = topics.map { ByteString($0) } }

    /// The parts of a `pn-param` of the form `Team.Topic[.services]`.
    struct Name {
        /// The topic, for example `com.example.phone`; `nil` if `pn-param` contains no topic, as in ECSS-10's own
        /// format.
        let topic: ByteString?
        /// The first word of `pn-param` and the topic, joined by a dot. Some apps omit the team, so the first word of
        /// `pn-param` can belong to the topic.
        fileprivate let whole: ByteString?
        /// The team identifier; `nil` if the first word of `pn-param` does not look like a team, because some clients
        /// invent a word.
        let team: ByteString?

        init(_ param: ByteString) {
            let bundle = APNsToken.bundle(in: param)
            // In ECSS-10's own `pn-param` format, the word after the dot is a service (`remote` or `voip`) and not a
            // topic.
            topic = bundle.flatMap { APNsToken.Service(rawValue: $0.string) == nil ? $0 : nil }
            whole = topic.flatMap { topic in
                param.firstIndex(of: UInt8(ascii: ".")).map { param[0..<min(param.count, $0 + 1 + topic.count)] }
            }
            let word = param[0..<(param.firstIndex(of: UInt8(ascii: ".")) ?? 0)]
            team = word.isAppleTeam ? word : nil
        }

        /// The APNs topics that `pn-param` can mean, the most likely topic first.
        var names: [ByteString] { [topic, whole].compactMap(\.self) }
    }

    /// The app's topic; `nil` if the app has several topics.
    var only: ByteString? { topics.count == 1 ? topics.first : nil }

    func topic(of name: Name) -> ByteString? {
        guard let topic = name.topic else { return only }
        if topics.isEmpty || topics.contains(topic) { return topic }
        return name.whole.flatMap { whole in topics.first { $0 == whole } }
    }
}

extension APNsToken {
    /// The minimum number of hexadecimal digits of an Apple push token.
    private static let shortestToken = 64

    /// Whether a `pn-prid` consists of Apple tokens, each with an optional service after a colon. The service after the
    /// colon in `pn-prid` is not checked.
    static func hasForm(_ prid: ByteString) -> Bool {
        prid.parts(separatedBy: UInt8(ascii: "&")).allSatisfy { part in
            let token = part[0..<(part.firstIndex(of: UInt8(ascii: ":")) ?? part.count)]
            return token.count >= shortestToken && token.isHexadecimal
        }
    }
}

extension ByteString {
    var isHexadecimal: Bool { allSatisfy { $0.hexValue != nil } }

    /// Whether the text has the form of Apple's team identifiers: ten capital letters and digits.
    fileprivate var isAppleTeam: Bool {
        count == 10 && allSatisfy { $0.isASCIIDigit || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
    }
}
