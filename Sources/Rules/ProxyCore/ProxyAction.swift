package import Addressing
package import PushDelivery
package import Registration
package import Timekeeping

/// What the shell must do for the engine. Order matters: actions are performed in the order they were returned.
package enum ProxyAction: Sendable {
    /// Write bytes on a flow. A stream flow whose `connection` is 0 means: any connection to that remote, opened when
    /// there is none. A failure comes back as ``ProxyEngine/sendFailed(on:now:)``.
    case send([UInt8], on: Flow)
    /// The peer of this stream has proved who it is, perhaps not for the first time (T17). The account stands for the user
    /// whose password it was; without one a contact was all the proof there is.
    case flowProved(Flow, account: Int?)
    /// Requests to that place may go by this connection, which its peer has opened.
    case reuse(Flow, as: Endpoint, ServerNumber)
    /// The peer has been told to send something on its connection more often than this.
    case expectLife(Flow, every: Duration)
    /// Commit these changes together, then call ``ProxyEngine/committed(_:succeeded:now:)`` with the ticket.
    case commit([EngineChange], CommitTicket)
    /// Write this before any other of the actions that are returned together is performed, so that the end of the process does
    /// not take it away; a power failure may.
    case journal(CallChange)
    /// Write these changes soon; nobody waits for them, and only the end of the process takes them away.
    case record([EngineChange])
    /// Write these rows of bindings when there is nothing better to do; losing them harms nobody.
    case refresh([StoredBinding])
    /// Write this into the timeline, unless too much else waits.
    case trace([TimelineChange])
    /// Tell whoever reported a device, or its removal, what became of it.
    case reported(ReportTicket, ReportResult)
    /// Hand a push to its provider; what becomes of it comes back as ``ProxyEngine/pushHappened(_:now:)``.
    case push(PushDispatcher.Transmission)
    /// Make a credential for pushes; it comes back as ``ProxyEngine/pushHappened(_:now:)``.
    case makeCredential(PushCredentials.Order)
    /// Tell whoever asked whether a token can be pushed.
    case dryRunEnded(DryRunTicket, canBePushed: Bool)
    /// Look a host name up; the answer comes back as ``ProxyEngine/resolved(_:to:now:)``.
    case resolve(NextHop, ResolutionTicket)
}

/// A row of the engine that the store must write or delete.
package enum EngineChange: Sendable {
    case binding(BindingChange)
    case bucket(StoredBucketChange)
    indirect case message(MessageChange)
    /// A row that nobody reads back: it is for application servers.
    case deadToken(DeadToken)
    /// A dialog whose traffic has moved its end.
    case dialogRenewed(UInt64, until: UnixTime)
}

/// A row that the engine never reads back.
package enum TimelineChange: Sendable {
    indirect case record(TimelineRecord)
    /// Pushes of a device that were read, whose rows are written already.
    case pushesRead([PushCode], device: DeviceID, at: UnixTime)
}

/// Names one commit the engine waits for.
package struct CommitTicket: Hashable, Sendable {
    /// Who waits for it.
    enum Owner: Hashable, Sendable {
        case registrar
        case messages
    }

    let owner: Owner
    package let number: UInt64

    package init(_ number: UInt64) { self.init(number, of: .registrar) }

    init(_ number: UInt64, of owner: Owner) {
        self.owner = owner
        self.number = number
    }
}

/// Names one report of a device; the reporter's own number.
package struct ReportTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}

/// Names one dry run; the asker's own number.
package struct DryRunTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}

/// What became of a report.
package enum ReportResult: Hashable, Sendable {
    /// It is on the disk; the number says how many devices were added, changed or removed.
    case done(Int)
    /// The provider is switched off, or the token cannot be one of our apps'.
    case notSupported(TokenProblem)
    /// The user has too many devices already.
    case tooManyDevices
    /// Too long to be kept.
    case malformed
    /// The disk or the user's queue is full; the reporter may try again later.
    case unavailable
}

/// Names one look-up the engine waits for.
package struct ResolutionTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}
