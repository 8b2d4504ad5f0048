import ProxyCore
import PushDelivery
import Reactor
import Registration
import SIPGrammar

/// Finds the device that has reported a token. All devices are searched, some at a time, so that calls go on meanwhile;
/// those who ask during a search share the next. What was found is remembered.
///
/// - `@unchecked Sendable` because it lives on the shard's loop and is used there alone.
final class TokenSearch: @unchecked Sendable {
    typealias FoundDevice = ProxyEngine.FoundDevice

    struct Wanted: Hashable, Sendable {
        /// See `ReportedTokens.name(of:_:)`.
        let name: ByteString
        /// The account on the device, where it is asked for.
        let selector: ByteString?

        func matches(_ token: PushToken) -> Bool {
            guard ReportedTokens.names(in: token).contains(name) else { return false }
            guard let selector, token.provider == .acrobits else { return true }
            return ReportedTokens.selector(of: token) == selector
        }
    }

    let form: ReportedTokens.Form
    private let shard: ProxyShard
    private let providers: Set<PushProvider>
    private var known: [Wanted: BindingID] = [:]
    private var waiting: [Question] = []
    /// Those that the present search is for.
    private var open: [Question] = []
    private var cursor = BindingCursor()
    private var isSearching = false

    private struct Question {
        let wanted: Wanted
        let done: (FoundDevice?) -> Void
    }

    private static let questionLimit = 256
    private static let memory = 10_000
    private static let step = 200

    init(shard: ProxyShard, form: ReportedTokens.Form) {
        self.shard = shard
        self.form = form
        providers =
            switch form {
            case .acrobits: [.acrobits]
            case .direct: [.apns, .apnsDevelopment, .fcm]
            }
    }

    /// `done` is called once, on the loop, perhaps at once; `nil`: no device has that token.
    ///
    /// - Returns: false when too many ask already; then it is not called.
    func find(_ wanted: Wanted, _ done: @escaping (FoundDevice?) -> Void) -> Bool {
        if let id = known[wanted] {
            let device = shard.assumeIsolated { shard in shard.withEngine { engine, now in engine.device(id, now: now) }
            }
            if let device, wanted.matches(device.token) {
                done(device)
                return true
            }
            known[wanted] = nil
        }
        guard waiting.count + open.count < Self.questionLimit else { return false }
        waiting.append(Question(wanted: wanted, done: done))
        if !isSearching {
            isSearching = true
            shard.loop.post { [self] in searchOn() }
        }
        return true
    }

    private func searchOn() {
        if open.isEmpty {
            guard !waiting.isEmpty else {
                isSearching = false
                return
            }
            swap(&open, &waiting)
            cursor = BindingCursor()
        }
        let wanted = Set(open.map(\.wanted.name))
        let (providers, cursor) = (providers, cursor)
        let result = shard.assumeIsolated { shard in
            shard.withEngine { engine, _ in
                let step = engine.devices(of: providers, from: cursor, limit: Self.step) { token in
                    ReportedTokens.names(in: token).contains { wanted.contains($0) }
                }
                return Step(found: step.found, next: step.next)
            }
        }
        for device in result.found { answer(with: device) }
        if let next = result.next {
            self.cursor = next
        } else {
            let missed = open
            open = []
            for question in missed { question.done(nil) }
        }
        shard.loop.post { [self] in searchOn() }
    }

    private struct Step: Sendable {
        let found: [FoundDevice]
        let next: BindingCursor?
    }

    private func answer(with device: FoundDevice) {
        let answered = open.filter { $0.wanted.matches(device.token) }
        guard !answered.isEmpty else { return }
        open.removeAll { $0.wanted.matches(device.token) }
        for question in answered {
            if known.count >= Self.memory { known = [:] }
            known[question.wanted] = device.id
            question.done(device)
        }
    }
}
