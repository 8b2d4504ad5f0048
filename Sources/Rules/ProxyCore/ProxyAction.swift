package import Addressing
package import PushDelivery
package import Registration
package import Timekeeping

/// An order of the engine to the shell. The shell performs the actions in the order in which the engine returned them.
package enum ProxyAction: Sendable {
    /// Write bytes to a flow. If `connection` is 0 on a stream flow, any connection to that remote will do, and the
    /// shell opens one if none exists. The shell reports a failure to ``ProxyEngine/sendFailed(on:now:)``.
    case send([UInt8], on: Flow)
    /// The peer of this connection is proved (T17), perhaps not for the first time. `account` is the user whose
    /// password the peer has shown. Without an account, an accepted REGISTER is the only proof.
    case flowProved(Flow, account: Int?)
    /// Requests to that endpoint may use this connection, which the peer has opened (RFC 5923).
    case reuse(Flow, as: Endpoint, ServerNumber)
    /// The peer was asked to send something on its connection at least this often.
    case expectLife(Flow, every: Duration)
    /// Commit these changes in one transaction, then call ``ProxyEngine/committed(_:succeeded:now:)`` with the ticket.
    case commit([EngineChange], CommitTicket)
    /// Write this change before any other action of the same batch. The change then survives the end of the process,
    /// but perhaps not a power failure.
    case journal(CallChange)
    /// Write these changes soon. Nobody waits for them. They are lost only if the process ends before.
    case record([EngineChange])
    /// Write these rows of bindings when the store is idle. Their loss does no harm.
    case refresh([StoredBinding])
    /// Write these records into the timeline, unless too many others wait.
    case trace([TimelineChange])
    /// Report the result to the HTTP client that reported a device or its removal.
    case reported(ReportTicket, ReportResult)
    /// Send a push to its provider. Report the result to ``ProxyEngine/pushHappened(_:now:)``.
    case push(PushDispatcher.Transmission)
    /// Make a credential for a provider. Report the credential to ``ProxyEngine/pushHappened(_:now:)``.
    case makeCredential(PushCredentials.Order)
    /// Report to the client of a dry run whether its token can be pushed.
    case dryRunEnded(DryRunTicket, canBePushed: Bool)
    /// Report to the operator what became of a test push.
    indirect case testPushEnded(TestPushTicket, TimelineRecord)
    /// Ask a source for a user. Report the answer to ``ProxyEngine/userAnswered(_:_:now:)``.
    indirect case askUser(UserQuestion)
    /// The login that waits for a user may be judged now.
    case userSettled(LoginTicket)
    /// Look a host name up. Report the addresses to ``ProxyEngine/resolved(_:to:now:)``.
    case resolve(NextHop, ResolutionTicket)
}

/// A row that the store must write or delete for the engine.
package enum EngineChange: Sendable {
    case binding(BindingChange)
    case bucket(StoredBucketChange)
    indirect case message(MessageChange)
    /// A dead token. The daemon never reads this row back; application servers do.
    case deadToken(DeadToken)
    /// Requests inside this dialog have moved its expiry to the given time.
    case dialogRenewed(UInt64, until: UnixTime)
}

/// A change to the timeline. The engine never reads the timeline back.
package enum TimelineChange: Sendable {
    indirect case record(TimelineRecord)
    /// These pushes were read on the device. Their records exist already.
    case pushesRead([PushCode], device: DeviceID, at: UnixTime)
}

/// Identifies one commit that the engine waits for.
package struct CommitTicket: Hashable, Sendable {
    /// The machine that waits for the commit.
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

/// Identifies one report of a device, by a number that the shell chose.
package struct ReportTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}

/// Identifies one dry run, by a number that the shell chose.
package struct DryRunTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}

/// The result of a report about devices.
package enum ReportResult: Hashable, Sendable {
    /// The report is persisted. The number says how many devices were added, changed or removed.
    case done(Int)
    /// The provider is switched off, or the token cannot be one of our apps'.
    case notSupported(TokenProblem)
    /// The user already has the maximum number of devices.
    case tooManyDevices
    /// A value of the report is too long.
    case malformed
    /// The disk or the user's queue is full. The client may retry later.
    case unavailable
}

/// Identifies one look-up that the engine waits for.
package struct ResolutionTicket: Hashable, Sendable {
    package let number: UInt64
    package init(_ number: UInt64) { self.number = number }
}
