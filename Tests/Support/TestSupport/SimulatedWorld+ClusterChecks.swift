import Addressing
import Bytes
import Calling
import ProxyCore
import Registration
import SIPGrammar
import SIPMessage
import Timekeeping

/// Checks the invariants of a simulated cluster.
extension SimulatedWorld {
    /// Checks each second that each call waits at one living node.
    func planOwnerCheck() {
        at(.seconds(1)) { world in
            world.checkOwners()
            world.planOwnerCheck()
        }
    }

    private func checkOwners() {
        var owners: [String: Int] = [:]
        for node in nodes where node.isAlive {
            for call in node.engine.heldCalls {
                guard let callID = call.userCall?.callID.string else { continue }
                if let other = owners.updateValue(node.number, forKey: callID),
                    let held = calls.first(where: { $0.callID == callID }), !held.hasTwoOwners
                {
                    violate("\(callID) has two owners: node \(other) and node \(node.number)")
                }
            }
        }
    }

    /// Whether a fault since the given time can excuse that a phone at one node does not get a call of another node.
    func hadTrouble(since: Instant, between node: Int, and peer: Int) -> Bool {
        guard let cluster else { return false }
        let pair = [min(node, peer), max(node, peer)]
        let ends = [
            cluster.storeTrouble, cluster.nodeTrouble[node] ?? .distantPast, cluster.nodeTrouble[peer] ?? .distantPast,
            cluster.linkTrouble[pair] ?? .distantPast,
        ]
        return ends.contains { $0 >= since }
    }

    /// Whether a node of a cluster may call a phone after the caller has heard the end: the INVITE came from another
    /// node, or another node has taken over the call.
    func isExcused(_ call: SimulatedCall, at node: Int) -> Bool {
        call.hasChangedOwner || isForwarded(call.callID, to: node)
    }

    /// Whether the INVITE at a phone is ahead of the 200 to the phone's REGISTER. The phone's node has committed the
    /// contact, and another node has read it before the phone's node knows of the commit.
    func isAhead(_ callID: String, of phone: Int, on flow: Flow, at node: Int) -> Bool {
        isForwarded(callID, to: node) && self.flow(of: phone) == flow
    }

    private func isForwarded(_ callID: String, to node: Int) -> Bool {
        cluster?.forwarded.contains(SimulatedClusterState.Forward(callID: callID, node: node)) == true
    }

    /// Notes that a node got no answer about users. It calls the phones that it knows, and phones that came to other nodes
    /// may get neither the call nor a report.
    func noteUnread(_ subjects: [UserSubject], at node: Int) {
        for index in calls.indices
        where calls[index].owner.node == node && !calls[index].sawProvisional && calls[index].finals.isEmpty {
            let aor = AddressOfRecord(user: ByteString(calls[index].user), host: ByteString("example.net"))
            if subjects.contains(.user(aor)) { calls[index].startedBlind = true }
        }
    }

    /// Notes that a phone has moved to another node after its answer. It repeats the answer from an address that the first
    /// node does not know, or has no connection for it.
    func noteStrayAnswer(_ callID: String) {
        if let index = calls.firstIndex(where: { $0.callID == callID }) { calls[index].hasStrayAnswer = true }
    }

    /// Notes that a REGISTER from a phone's earlier address has overtaken a newer REGISTER at another node. The nodes take
    /// the earlier address for the present one until the phone registers again.
    func noteOvertaken(_ response: SIPResponse) {
        guard cluster != nil, response.cseq.method == .register, response.status.isSuccess else { return }
        for phone in phones.indices where response.callID.string.hasPrefix("reg-\(phones[phone].name)-") {
            phones[phone].overtakenAt = now.instant
        }
    }

    /// Checks that a node refuses a call with 503 only while the store does not answer.
    func checkRefusal(of call: SimulatedCall, by node: Int) {
        guard let cluster else { return }
        let troubles = [cluster.storeTrouble, cluster.nodeTrouble[node] ?? .distantPast]
        if !troubles.contains(where: { $0 >= call.startedAt }) {
            violate("\(call.callID) was refused although the store answers")
        }
    }

    /// Notes a list of missed calls that the push provider has refused. The node repeats the list later, even if another
    /// node has sent it in the meantime.
    func noteFailedReport(of index: Int, by phone: Int) {
        if cluster != nil { calls[index].reportsOverlap.insert(phone) }
    }

    /// Notes that a node sends a phone the list of missed calls with a call. A phone that registers again before the
    /// provider has accepted the list can get the call in two lists, and so can a phone while the store does not answer.
    func noteReport(of index: Int, by phone: Int, from node: Int) {
        guard let cluster else { return }
        if let last = calls[index].lastReport[phone] {
            let troubles = [cluster.storeTrouble, cluster.nodeTrouble[last.node] ?? .distantPast]
            if now.instant - last.at < .milliseconds(600) || troubles.contains(where: { $0 >= last.at }) {
                calls[index].reportsOverlap.insert(phone)
            }
        }
        calls[index].lastReport[phone] = (node, now.instant)
    }

    /// Checks in the evening that a call that another node or another run has continued has ended for its caller.
    func checkEnd(of call: SimulatedCall) {
        let label = "\(call.callID) to \(call.user), which changed its owner,"
        let isLost = call.wasLost || cluster?.undeleted.contains(ByteString(call.callID)) == true
        if !isLost, call.sawProvisional, call.finals.isEmpty { violate("\(label) has no end") }
        let owners = call.hasTwoOwners ? 2 : 1
        if call.finals.count > owners + 1 { violate("\(label) ended with \(call.finals.map(\.code))") }
    }

    /// Complains about a call that a node forwards after its end.
    func checkForwarded(_ call: SimulatedCall, from node: Int) {
        violate("\(call.callID) went from node \(node) to another node after its end")
    }
}
