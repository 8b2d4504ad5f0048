package import AccessLimits
package import Addressing
package import Calling
package import Messaging
package import ProxyPolicy
package import PushDelivery
package import PushPlanning
package import Registration
package import Routing
package import Timekeeping

/// An order from the engine to its shell, the code that does all input and output. The shell performs actions in the
/// order in which the engine returned them.
package enum ProxyAction: Sendable {
    /// Write the bytes to a flow, and report a failure to ``ProxyEngine/sendFailed(on:now:)``. If the connection number
    /// of a TCP or TLS flow is 0, the shell uses any open connection to the remote endpoint, or opens one.
    case send([UInt8], on: Flow)
    /// Keep the given connection, because its peer has proved its identity (T17). The number `account` identifies the
    /// user whose password the peer has shown; `nil` means that only an accepted REGISTER proves the peer.
    case flowProved(Flow, account: Int?)
    /// Use the given connection, which the peer has opened, also for requests to the given endpoint (RFC 5923).
    case reuse(Flow, as: Endpoint, ServerNumber)
    /// Close the connection if the peer, which was asked for keep-alives, sends nothing for longer than the given time.
    case expectLife(Flow, every: Duration)
    /// Commit the given changes in one transaction, then call ``ProxyEngine/committed(_:succeeded:now:)`` with the
    /// ticket.
    case commit([EngineChange], CommitTicket)
    /// Write the given change to the journal before any later action is performed. A journaled change survives the end
    /// of the process, but perhaps not a power failure.
    case journal(CallChange)
    /// Write the given changes to the store soon; the engine does not wait, and a crash before the write loses the
    /// changes.
    case record([EngineChange])
    /// Write the given refreshed bindings when the store is idle; a crash may lose the write without harm.
    case refresh([StoredBinding])
    /// Write the given records into the timeline, unless too many records already wait to be written.
    case trace([TimelineChange])
    /// Report the end of this call to the traces. The engine orders this only after ``ProxyEngine/reportsEnds(_:)``.
    indirect case callEnded(EndedCallReport)
    /// Store the given upper bound for the CSeq numbers of the daemon's own REGISTERs, then call
    /// ``ProxyEngine/registerCeilingStored(_:now:)``.
    case storeRegisterCeiling(UInt32)
    /// Send the result to the HTTP client that reported a device, or asked to remove devices.
    case reported(ReportTicket, ReportResult)
    /// Send a push to its provider, and report the result to ``ProxyEngine/pushHappened(_:now:)``.
    case push(PushDispatcher.Transmission)
    /// Make a credential for a push provider, and report the credential to ``ProxyEngine/pushHappened(_:now:)``.
    case makeCredential(PushCredentials.Order)
    /// Tell the client that asked for the check of a push token whether a push can be sent to that token.
    case dryRunEnded(DryRunTicket, canBePushed: Bool)
    /// Report the result of a test push to the operator who ordered it.
    indirect case testPushEnded(TestPushTicket, TimelineRecord)
    /// Ask a source of users about a user, and report the answer to ``ProxyEngine/userAnswered(_:_:now:)``.
    indirect case askUser(UserQuestion)
    /// Read the keys of the token issuer with the given index in ``BearerRules/issuers``, and report the keys to
    /// ``ProxyEngine/keysRead(_:of:now:)``.
    case readKeys(issuer: Int)
    /// Continue the login with the given ticket, because it no longer waits for a source of users.
    case userSettled(LoginTicket)
    /// Look up the addresses of a host name, and report them to ``ProxyEngine/resolved(_:to:now:)``.
    case resolve(NextHop, ResolutionTicket)
}

/// A change that the engine orders in the store: a row to write or to delete.
package enum EngineChange: Sendable {
    case binding(BindingChange)
    case bucket(StoredBucketChange)
    indirect case message(MessageChange)
    /// Store a dead push token for the application servers; the daemon itself never reads the stored token.
    case deadToken(DeadToken)
    /// Store the new expiry of a dialog that a request has extended; the number is a hash of the dialog token.
    case dialogRenewed(UInt64, until: UnixTime)
}
