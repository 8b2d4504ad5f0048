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
    /// The push that is under way for it.
    package var push: PushID?
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
