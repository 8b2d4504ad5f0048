/// The HTTP of one connection, in either version.
protocol SandboxSession: AnyObject {
    /// Takes bytes of the connection.
    ///
    /// - Returns: whether the connection may go on; otherwise it is closed once what waits is sent.
    func take(_ bytes: Span<UInt8>) -> Bool

    /// Answers on the stream the request came with; nothing happens when that is gone.
    func answer(_ answer: SandboxAnswer, on number: Int32)

    /// Tells the peer that no more requests are taken, and with a number, that this one was not looked at.
    func goAway(refusing number: Int32?)
}
