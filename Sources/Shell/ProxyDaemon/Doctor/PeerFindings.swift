package import Addressing
import ProxyCore
package import ProxyPolicy

/// The answer of a SIP server to the doctor's OPTIONS request.
package struct PeerFact: Hashable, Sendable {
    package enum Answer: Hashable, Sendable {
        case status(Int)
        case silence
        /// No connection could be opened, or no request could be sent, for the reason in the text.
        case failed(String)
    }

    /// The name of the setting that lists the server (`upstream` or `trusted`), and its value.
    package let setting: String
    package let value: String
    package let endpoint: Endpoint
    package let transport: Transport
    package let answer: Answer

    package init(setting: String, value: String, endpoint: Endpoint, transport: Transport, answer: Answer) {
        self.setting = setting
        self.value = value
        self.endpoint = endpoint
        self.transport = transport
        self.answer = answer
    }
}

/// Findings about the PBX: whether it answers, and whether it is trusted.
package enum PeerFindings {
    package static func findings(
        _ facts: [PeerFact], trusted: [TrustedPeer], hasUpstream: Bool, authenticates: Bool
    ) -> [Finding] {
        facts.map(finding) + trust(facts, trusted, hasUpstream, authenticates)
    }

    private static func finding(_ fact: PeerFact) -> Finding {
        let place = "\(fact.value): \(fact.transport.parameterName):\(fact.endpoint)"
        let isUpstream = fact.setting != "trusted"
        switch fact.answer {
        case .status(let status): return Finding(fact.setting, .ok, "\(place) answers OPTIONS with \(status)")
        case .silence:
            return Finding(
                fact.setting, isUpstream ? .wrong : .note, "\(place) does not answer OPTIONS",
                cure: isUpstream
                    ? "Is the PBX running, does it know this machine, and does a firewall let \(fact.transport.parameterName) port \(fact.endpoint.port) through both ways?"
                    : "There is nothing to do if the PBX only sends calls, and takes no requests at this address.")
        case .failed(let words):
            return Finding(
                fact.setting, isUpstream ? .wrong : .note, "\(place): \(words)",
                cure: isUpstream
                    ? "Is the PBX running, and does it listen at this address and transport?"
                    : "There is nothing to do if the PBX only sends calls, and takes no requests at this address.")
        }
    }

    /// Returns a finding for each upstream server that is not trusted. Calls of the PBX usually come from the
    /// upstream's address. If this address is not trusted, the calls get 407.
    private static func trust(
        _ facts: [PeerFact], _ trusted: [TrustedPeer], _ hasUpstream: Bool, _ authenticates: Bool
    ) -> [Finding] {
        guard authenticates else { return [] }
        guard !trusted.isEmpty else {
            return [
                Finding(
                    "trusted", hasUpstream ? .wrong : .note,
                    "no peer is trusted, so only phones with a password can call",
                    cure: "List the address of the PBX under trusted.")
            ]
        }
        let upstreams = facts.filter { $0.setting == "upstream" }
        let foreign = upstreams.filter { fact in !trusted.contains { matches($0, fact) } }
        return Set(foreign.map(\.endpoint.address)).sorted { "\($0)" < "\($1)" }.map { address in
            Finding(
                "trusted", .wrong,
                "the upstream's address \(address) is not trusted: its calls to phones get 407",
                cure: "Add \(address) to trusted, and send SIGHUP.")
        }
    }

    /// Whether the trusted peer and the examined server can be the same. Ports are not compared, because a server can
    /// send requests from another port than its listening port.
    private static func matches(_ peer: TrustedPeer, _ fact: PeerFact) -> Bool {
        switch peer {
        case .block(let block): block.contains(fact.endpoint.address)
        case .endpoint(let endpoint): endpoint.address == fact.endpoint.address
        // The certificate proves the peer's name at any address.
        case .name: true
        }
    }
}
