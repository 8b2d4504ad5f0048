import Addressing
import Bytes
import ProxyCore
import PushDelivery
import SIPGrammar
import SIPMessage
import Timekeeping

/// Checks the invariants of the simulation.
extension SimulatedWorld {
    func violate(_ sentence: String) { violations.append("\(now.instant.nanoseconds / 1_000_000) ms: \(sentence)") }

    /// Checks a message that the daemon sends to a phone. The phone must have got a 2xx to a REGISTER before, and must
    /// get each call once.
    func checkSent(_ message: ReadMessage, to phone: Int, on flow: Flow, from node: Int) {
        switch message {
        case .response(let response):
            if response.cseq.method == .register, response.status.isSuccess,
                phones[phone].isRegistering(response.callID)
            {
                // A second 200 to a repeated REGISTER is no new registration.
                let isNew = phones[phone].acknowledged != response.via.branch
                let isBack = phones[phone].isAcknowledged && isNew
                phones[phone].acknowledged = response.via.branch
                phones[phone].acknowledgedFlow = flow
                phones[phone].isAcknowledged = true
                if phones[phone].firstRegistered == .distantFuture { phones[phone].firstRegistered = now.instant }
                if isBack { expectCalls(at: phone, on: flow, of: node) }
            }
        case .request(let request) where request.method == .invite:
            let branch = request.via.branch?.string ?? ""
            let callID = request.callID.string
            let earlier = phones[phone].invited[callID] ?? []
            let known = earlier.last
            if !earlier.contains(where: { $0.branch == branch }) {
                let hasCrashed = calls.contains { $0.callID == callID && ($0.sawCrash || $0.hasChangedOwner) }
                // An INVITE may be repeated only to a phone that has moved to a new address, or that answered it as a
                // merged request.
                if let known, known.flow == flow, !phones[phone].refused.contains(callID), !hasCrashed {
                    violate("\(phones[phone].name) got \(callID) twice")
                }
                if earlier.count > 3 * (1 + Set(earlier.map(\.flow)).count) {
                    violate("\(phones[phone].name) got \(callID) again and again")
                }
                phones[phone].invited[callID, default: []].append((branch, flow))
                if !phones[phone].isOrdinary, phones[phone].acknowledgedFlow != flow,
                    !isAhead(callID, of: phone, on: flow, at: node)
                {
                    violate("\(phones[phone].name) got \(callID) before its REGISTER's 200")
                }
            }
            if request.uri.text.string.replacing(";pn-purr=", with: "").contains(";pn-") {
                violate("a push parameter left in \(request.uri.text)")
            }
            if let target = calls.first(where: { $0.callID == callID })?.target?.phone, target != phone {
                violate("\(phones[phone].name) got \(callID), which is for \(phones[target].name) alone")
            }
            if let index = calls.firstIndex(where: { $0.callID == request.callID.string }), calls[index].isOver,
                known == nil, !isExcused(calls[index], at: node)
            {
                violate("\(phones[phone].name) was called after \(request.callID) had ended")
            }
        case .request, .unusable: break
        }
    }

    /// Handles a message that goes to no phone's present address: a response to the caller, or an INVITE to a phone's
    /// old address.
    func noteSentAway(_ message: ReadMessage, on flow: Flow, from node: Int) {
        if case .response(let response) = message { noteOvertaken(response) }
        if case .response(let response) = message, response.cseq.method == .invite, response.status.isFinal,
            let index = calls.firstIndex(where: { $0.callID == response.callID.string })
        {
            calls[index].isOverForDaemon = true
            calls[index].finalsSent += 1
            if response.status == .serviceUnavailable { checkRefusal(of: calls[index], by: node) }
        }
        guard case .request(let request) = message, request.method == .invite,
            let phone = phones.firstIndex(where: { $0.name == request.uri.user?.string })
        else { return }
        let branch = request.via.branch?.string ?? ""
        let callID = request.callID.string
        guard phones[phone].invited[callID]?.contains(where: { $0.branch == branch }) != true else { return }
        phones[phone].invited[callID, default: []].append((branch, flow))
    }

    /// Expects that the daemon soon sends all active calls of the user to a phone that has registered again on this
    /// flow.
    private func expectCalls(at number: Int, on flow: Flow, of node: Int) {
        let user = phones[number].user
        let since = now.instant
        let generation = nodes[node].generation
        guard !phones[number].isOrdinary else { return }
        let open = calls.filter { $0.user == user && $0.sawProvisional && $0.finals.isEmpty && !$0.gaveUp }
        for call in open
        where phones[number].firstRegistered < call.startedAt && (call.target.map { $0.phone == number } ?? true) {
            // The daemon tries the second flow of a phone after three seconds. Another node asks the store four times a
            // second.
            let owner = nodes[call.owner.node]
            let ownerGeneration = owner.generation
            guard owner.isAlive, call.owner.since <= since else { continue }
            let polls = call.owner.node != node
            if polls { cluster?.expected += 1 }
            at(.milliseconds(plan.flows > 1 ? 3_500 : polls ? 900 : 300)) { world in
                let phone = world.phones[number]
                guard world.nodes[node].generation == generation, owner.generation == ownerGeneration,
                    !world.hadTrouble(since: since, between: node, and: owner.number), phone.acknowledgedFlow == flow,
                    let call = world.calls.first(where: { $0.callID == call.callID }), call.finals.isEmpty,
                    !call.gaveUp, !call.startedBlind, !call.wasAnswered, !call.wasLost, phone.overtakenAt < since,
                    since - call.startedAt < .seconds(29),
                    !phone.refused.contains(call.callID), !phone.unpushed.contains(call.callID),
                    !call.wasDeclined, world.plan.flows == 1 || !call.reached.contains(number)
                else { return }
                if phone.invited[call.callID]?.contains(where: { $0.flow == flow }) != true {
                    world.violate("\(phone.name) came back and did not get \(call.callID)")
                }
            }
        }
    }

    /// Records a phone's response that reached the daemon, by the rules for missed calls (A21).
    ///
    /// The daemon may ignore a response on a flow that neither got the INVITE nor is registered. If the daemon ignored
    /// the response, it may report the call to the phone as missed.
    func noteResponse(_ response: SIPResponse, on flow: Flow, at node: Int) {
        guard response.cseq.method == .invite,
            let index = calls.firstIndex(where: { $0.callID == response.callID.string }),
            let phone = phones.firstIndex(where: { $0.name == response.to.tag?.string })
        else { return }
        let invited = phones[phone].invited[response.callID.string] ?? []
        // A node knows no other flow of a phone that rings for a call of another node.
        let isFromKnownFlow =
            node == calls[index].owner.node
            ? phones[phone].acknowledgedFlow == flow || invited.contains { $0.flow == flow }
            : invited.contains { $0.flow == flow && $0.branch == response.via.branch?.string }
        let isOver = calls[index].isOverForDaemon && !calls[index].wasAnswered && !calls[index].hasChangedOwner
        if response.status.isSuccess, calls[index].finals.isEmpty && !isOver || calls[index].finals.contains(200) {
            calls[index].wasAnswered = true
            calls[index].answersHeard += 1
            if isFromKnownFlow { calls[index].wasSurelyAnswered = true } else { calls[index].hasStrayAnswer = true }
        }
        if response.status.statusClass == 6 { calls[index].wasDeclined = true }
        if response.status.code >= 300 { phones[phone].refused.insert(response.callID.string) }
        if response.status.code >= 180, response.status != 408, response.status != 503 {
            calls[index].reached.insert(phone)
            if isFromKnownFlow { calls[index].surelyReached.insert(phone) }
            // If the daemon has already ended the call, the call counts as missed, because the ringing phone gets no
            // CANCEL.
            if response.status.isProvisional, calls[index].isOverForDaemon { calls[index].rangAfterEnd.insert(phone) }
        }
    }

    func recorded(_ record: TimelineRecord, at node: SimulatedNode) {
        // In a cluster, a call has a second record if its phone gets another push after the end of the phone's node.
        let continued = calls.first { $0.callID == record.callID.string && ($0.hasChangedOwner || cluster != nil) }
        for complaint in node.timeline.complaints(
            about: record, age: continued.map { now.instant - $0.startedAt }, ringsLiveFlows: plan.ringsLiveFlows)
        {
            violate(complaint)
        }
        if record.end == .unreachable,
            let index = calls.firstIndex(where: { $0.callID == record.callID.string })
        {
            calls[index].lostAPhone = true
        }
        if record.end == .answered,
            let call = calls.first(where: { $0.callID == record.callID.string }), !call.wasAnswered,
            !call.hasChangedOwner
        {
            violate("the record of \(record.callID) says it was answered")
        }
    }

    func checkEvening() {
        let whole = calls.filter { !$0.sawCrash && !$0.finals.isEmpty }.map(\.callID)
        for node in nodes {
            for complaint in node.timeline.complaints(
                inEveningOf: node.engine, calls: cluster == nil ? whole : [], now: now.instant)
            {
                violate(complaint)
            }
        }
        for call in calls {
            if call.finals.contains(500), !phones.contains(where: { $0.user == call.user && $0.isOrdinary }) {
                violate("the caller of \(call.callID) heard that a phone was lost")
            }
            let label = "\(call.callID) to \(call.user)"
            if call.hasChangedOwner {
                checkEnd(of: call)
                continue
            }
            // Repeated interruptions of the network can lose all INVITEs of a call.
            if plan.partitions > 0, !call.sawProvisional, call.finals.isEmpty { continue }
            // Interruptions of the network can also lose all answers that the daemon has forwarded to the caller.
            if plan.partitions > 0, call.finals.isEmpty, call.answersHeard > 0, call.finalsSent >= call.answersHeard {
                continue
            }
            // The network has lost the answer, and the phone repeats it from an address that its node does not know.
            if cluster != nil, call.finals.isEmpty, call.hasStrayAnswer, call.finalsSent > 0 { continue }
            if call.finals.count != 1, !call.sawCrash, !(call.finals.count == 2 && call.finals.contains(200)) {
                violate("\(label) ended with \(call.finals.map(\.code))")
            }
            if call.sawCrash, !call.wasLost, call.sawProvisional, call.finals.isEmpty || call.finals.count > 2 {
                violate("\(label), which was on the disk when the daemon died, ended with \(call.finals.map(\.code))")
            }
            for phone in phones where phone.user == call.user && !phone.isOrdinary {
                let reports = call.reports[phone.number] ?? 0
                if let target = call.target, target.phone != phone.number {
                    if reports > 0 { violate("\(label): \(phone.name) was told of a call for another") }
                    continue
                }
                let mayBeSpared = call.wasAnswered || call.wasAnsweredElsewhere || call.reached.contains(phone.number)
                let isUncertain = call.wasLost || call.reportsInFlightAtCrash.contains(phone.number)
                if reports > (isUncertain || call.reportsOverlap.contains(phone.number) ? 2 : 1) {
                    violate("\(label): \(phone.name) was told \(reports) times")
                }
                let hadItSurely =
                    call.wasSurelyAnswered || call.wasAnsweredElsewhere || call.surelyReached.contains(phone.number)
                let mayBeTold =
                    isUncertain || call.lostAPhone || call.rangAfterEnd.contains(phone.number) || !hadItSurely
                if reports > 0, mayBeSpared, !mayBeTold {
                    violate("\(label): \(phone.name) was told of a call it had")
                }
                if reports == 0, !mayBeSpared, !isUncertain, !call.startedBlind,
                    call.finals.first != 404, cluster == nil || call.finals.first != .serviceUnavailable,
                    phone.firstRegistered < call.startedAt
                {
                    violate("\(label): \(phone.name) was never told")
                }
            }
        }
        checkOutgoing()
        checkRegistrations()
        let held = nodes.reduce(0) { $0 + $1.engine.heldCalls.count }
        if held > 0 { violate("\(held) calls are still held in the evening") }
        if let cluster { checkContacts(on: cluster.store.disk, after: "the day") }
    }
}
