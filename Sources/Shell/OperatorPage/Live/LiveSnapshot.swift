import Control
import JSON

/// The state of the daemon at one moment, as the live view shows it. All times are in Unix milliseconds.
struct LiveSnapshot: Encodable {
    let time: Int64
    let held: HeldCalls
    let pushes: Pushes
    let rates: Rates
    let ended: [EndedCall]
    let providers: [ProviderState]
    let store: StoreState
    /// The nodes of the cluster, this node first; empty without a cluster.
    let nodes: [NodeState]

    struct NodeState: Encodable {
        let name: String
        /// Why the node did not answer; `nil` for a node that has answered.
        var problem: String?
    }

    struct HeldCalls: Encodable {
        let total: Int
        /// The oldest calls that wait or ring.
        let calls: [Call]
    }

    struct Call: Encodable {
        let id: UInt64
        let user: String
        let caller: String
        let callID: String
        let receivedAt: Int64
        let ringsUntil: Int64
        let sleeping: Int
        let ringing: Int
        /// The node at which the call waits; `nil` without a cluster.
        let node: String?
    }

    struct Pushes: Encodable {
        let queued: Int
        let inFlight: Int
        let slowest: [Push]
    }

    struct Push: Encodable {
        let user: String
        let provider: String
        let milliseconds: Int64
    }

    /// Events per second since the previous snapshot.
    struct Rates: Encodable {
        let registers: Int
        let invites: Int
        let pushes: Int
        /// The number of calls that were delivered to a phone after a wait for the phone.
        let woken: Int
    }

    struct EndedCall: Encodable {
        let user: String
        let callID: String
        /// How the call ended; see `TimelineRecord.End`.
        var end: String
        let at: Int64
    }

    struct ProviderState: Encodable {
        let name: String
        let isEnabled: Bool
        let isPaused: Bool
        let apps: [PushAppFigures]
        let state: String
        let says: String
        let advice: String
    }

    struct StoreState: Encodable {
        let obstacle: String?

        private enum CodingKeys: String, CodingKey { case obstacle }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(obstacle, forKey: .obstacle)
        }
    }
}

extension LiveSnapshot.ProviderState {
    /// Describes a push provider in words: first the operator's setting, then the worst state of its apps.
    init(_ report: ProviderReport) {
        let name = report.name
        (self.name, isEnabled, isPaused, apps) = (name, report.isEnabled, report.isPaused, report.apps)
        if !report.isEnabled {
            (state, says) = (
                "disabled", "An operator has switched \(name) off, so its phones are called without a push."
            )
            advice = "sippushd provider enable \(name)"
        } else if report.isPaused {
            (state, says) = ("paused", "An operator has paused \(name), so calls wait for phones without a push.")
            advice = "sippushd provider resume \(name)"
        } else if let failure = report.apps.lazy.compactMap({ Self.failure(of: $0) }).first {
            (state, says, advice) = ("failing", failure.says, failure.advice)
        } else {
            state = "ok"
            let accepted = report.apps.reduce(0) { $0 &+ $1.accepted }
            let usual =
                accepted > 0 ? "\(name) accepts pushes." : "\(name) has had no push since the start of the daemon."
            says = usual + Self.troubledHosts(of: report.apps)
            advice = ""
        }
    }

    /// A sentence about push servers that phones chose and that fail; empty if there are none. A failure of such a
    /// server is no failure of the provider.
    private static func troubledHosts(of apps: [PushAppFigures]) -> String {
        let hosts = apps.flatMap { $0.hosts ?? [] }
        let troubled = hosts.filter { !$0.isReachable || $0.refusal != nil }
        guard let first = troubled.first else { return "" }
        return " \(troubled.count) of \(hosts.count) push servers that phones chose fail, such as \(first.host)."
    }

    private static func failure(of app: PushAppFigures) -> (says: String, advice: String)? {
        let credentials = app.credentials
        let check = credentials.cure ?? "Check the credentials of \(app.name) in the settings."
        if let refusal = app.refusal { return ("\(app.name) refuses the daemon's credentials: \(refusal).", check) }
        if credentials.state == CredentialReport.State.refused.rawValue {
            return ("\(app.name) refuses the daemon's credentials: \(credentials.reason ?? "no reason given").", check)
        }
        guard app.isReachable, app.problem == nil, credentials.state != CredentialReport.State.failed.rawValue else {
            return (
                "\(app.name) cannot be reached: \(app.problem ?? credentials.reason ?? "it does not answer").",
                credentials.cure ?? "Check the network to the provider, and the provider's status page."
            )
        }
        return nil
    }
}

/// The events of the live view's stream (`text/event-stream`).
enum LiveEvent {
    /// Writes an event whose data is one line of JSON.
    static func bytes(_ name: String, _ value: some Encodable) -> [UInt8]? {
        guard let json = try? JSONValue(of: value) else { return nil }
        return Array("event: \(name)\ndata: ".utf8) + json.bytes + Array("\n\n".utf8)
    }

    struct Bye: Encodable {
        let reason: String
    }
}
