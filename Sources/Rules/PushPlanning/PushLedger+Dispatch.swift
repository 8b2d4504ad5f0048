package import Calling
package import PushDelivery
package import Timekeeping

/// Passes pushes and events to the ``PushDispatcher``, and carries out the dispatcher's orders.
extension PushLedger {
    // MARK: A push

    /// Adds a push, and passes its request to the dispatcher; ``nextOutcome()`` returns the result of the push. A branch
    /// that ordered the push gets the push's id before the push can be sent.
    package mutating func send(
        _ push: AskedPush, _ request: consuming PushRequest, now: Moment, into actions: inout some PushOrders
    ) {
        lastPush &+= 1
        request.id = PushID(rawValue: lastPush)
        pushes[request.id] = push
        if case .call(let call, let branch) = push.purpose { call.fork.pushAsked(branch, request.id) }
        dispatcher.pushAsked(request, now: now)
        carryOut(now: now, into: &actions)
    }

    private mutating func carryOut(now: Moment, into actions: inout some PushOrders) {
        dispatcher.takeActions(into: &orders)
        // The orders are processed from the end of the reversed array, because removing the last element copies no
        // order.
        orders.reverse()
        while let order = orders.popLast() {
            switch order {
            case .tell(let id, let step): noted(id, step, now: now, into: &actions)
            case .send(let transmission): actions.send(transmission)
            case .makeCredential(let credential): actions.makeCredential(credential)
            }
        }
    }

    /// Notes a step of a push in the push's timeline record.
    ///
    /// The method tells the fork whether a push was sent, so that a phone that is lost later gets no second push.
    private mutating func noted(_ id: PushID, _ step: PushStep, now: Moment, into actions: inout some PushOrders) {
        guard let push = pushes[id] else { return }
        if case .sent = step { push.hasLeft = true }
        if case .refused(.paused) = step { push.isPaused = true }
        if case .call(let call, let branch) = push.purpose, !push.isDropped {
            if push.isPaused { call.saw(.pushPaused) }
            switch step {
            case .sent: call.fork.pushLeft(branch)
            case .answered(let outcome, _, _) where !outcome.isAccepted: call.fork.pushRefused(branch)
            case .queued, .refused, .answered, .finished, .withdrawn: break
            }
        }
        if case .withdrawn = step, let push = pushes.removeValue(forKey: id) {
            unread.ended(push.code, of: push.device)
        }
        if let record = push.record {
            let complete = timeline.noted(record, step, now: now.instant)
            if case .test(let test) = push.purpose { test.ended(with: complete) }
            if let complete { actions.trace([.record(complete)]) }
        }
    }

    // MARK: What happened

    /// Passes an event to the dispatcher: a push provider's answer, or a made or failed credential.
    package mutating func happened(_ event: PushDispatcher.Event, now: Moment, into actions: inout some PushOrders) {
        dispatcher.happened(event, now: now)
        carryOut(now: now, into: &actions)
    }

    /// Starts the dispatcher, which fetches credentials before a push needs them.
    package mutating func started(now: Moment, into actions: inout some PushOrders) {
        dispatcher.started(now: now)
        carryOut(now: now, into: &actions)
    }

    /// Replaces the credentials for push providers by credentials that were read again from files.
    package mutating func credentialsChanged(
        _ credentials: PushCredentials, now: Moment, into actions: inout some PushOrders
    ) {
        dispatcher.credentialsChanged(credentials, now: now)
        carryOut(now: now, into: &actions)
    }

    package mutating func timePassed(now: Moment, into actions: inout some PushOrders) {
        guard let deadline = dispatcher.nextDeadline, deadline <= now.instant else { return }
        dispatcher.timePassed(now: now)
        carryOut(now: now, into: &actions)
    }

    // MARK: Outcomes

    /// Removes and returns a push that has ended, with its final result, even if no branch waits for the push any more.
    /// If no further push has ended, ``nextOutcome()`` returns `nil`.
    package mutating func nextOutcome() -> (push: AskedPush, outcome: PushOutcome)? {
        while let (id, outcome) = dispatcher.nextOutcome() {
            guard let push = pushes.removeValue(forKey: id) else { continue }
            if !outcome.isAccepted { unread.ended(push.code, of: push.device) }
            return (push, outcome)
        }
        return nil
    }

    /// Drops a branch's push that is no longer needed, and withdraws the push if it was not sent yet.
    ///
    /// If the push was already sent, the provider's answer still changes the badge, the timeline record and the token,
    /// but not the branch. The parameter `end` is a push about the end of the call. It is sent if the provider accepts
    /// the dropped push after all.
    package mutating func drop(
        _ branch: Int, of call: ProxiedRequest, owing end: EndedCallNotice? = nil, now: Moment,
        into actions: inout some PushOrders
    ) {
        guard let id = call.fork.takePush(branch) else { return }
        if let push = pushes[id] {
            push.isDropped = true
            push.end = end
            if !push.hasLeft { unread.ended(push.code, of: push.device) }
        }
        dispatcher.cancelled(id, now: now)
        carryOut(now: now, into: &actions)
    }

    // MARK: Paused providers

    package func isPaused(_ provider: PushProvider) -> Bool { dispatcher.paused.contains(provider) }

    /// Stops sending pushes to a push provider.
    package mutating func pause(_ provider: PushProvider, now: Moment, into actions: inout some PushOrders) {
        dispatcher.pause(provider, now: now)
        carryOut(now: now, into: &actions)
    }

    package mutating func resume(_ provider: PushProvider) { dispatcher.resume(provider) }
}
