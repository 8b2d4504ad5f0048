package import Addressing
package import PushDelivery
package import Registration
package import SIPGrammar
package import SIPTransactions

/// One target of a fork.
package struct ForkBranch: Sendable {
    package enum State: Hashable, Sendable {
        /// Waits for its device to register. Next: `calling` when it did, `ended`.
        case sleeping
        /// Its next hop is being looked up. Next: `calling`, `ended`.
        case resolving(ResolutionTicket)
        /// The request was sent in this client transaction. Next: `ended`.
        case calling(ClientTransactionID)
        case ended
    }

    package var state: State
    /// The binding it stands for; `nil` for the upstream and for next hops inside a dialog.
    package let device: BindingID?
    /// The contact that it was sent to instead: of a device that had only been reported, and whose user has registered.
    package var contact: BindingID?
    /// Where the request was sent last.
    package var flow: Flow?
    /// The push that is under way for it.
    package var push: PushID?
    /// Its provider has taken the push: the phone may ring.
    package var wasWoken = false
    /// The device answered 180 or more, other than 408 and 503: it knows of the call (reading A21).
    package var deviceKnows = false

    /// Its record in the timeline, until that knows the branch's end.
    package var trace: PushID?
    /// Why it ended, or will: a branch that is cancelled ends with its final response.
    package internal(set) var end: End?

    package enum End: Hashable, Sendable {
        case succeeded
        case failed(Status)
        /// The same, made up here: no answer, or no way to the phone.
        case gaveUp(Status)
        case silent
        case cancelled(Fork.CancelReason)
    }

    package init(state: State, device: BindingID?) {
        self.state = state
        self.device = device
    }

    package var isSleeping: Bool { state == .sleeping }
    package var isEnded: Bool { state == .ended }

    /// Whether it stands for that binding, or was sent to it.
    package func isOf(_ binding: BindingID) -> Bool { device == binding || contact == binding }

    /// Whether that contact, which can be reached there now, has the request from this branch: it went there, or was
    /// answered already.
    package func hasReached(_ binding: BindingID, on present: Flow) -> Bool {
        guard isOf(binding) else { return false }
        if deviceKnows { return true }
        if case .gaveUp = end { return false }
        return flow == present
    }
}

extension ForkTarget {
    /// What wakes the device; `nil` for an ordinary contact.
    package var pushToken: PushToken? {
        switch kind {
        case .ordinary: nil
        case .sleeping(let token): token
        }
    }
}
