/// The HTTP of one connection, in either version.
protocol SandboxSession: AnyObject {
    /// Takes bytes of the connection.
    ///
    /// - Returns: whether the connection may go on. Otherwise it is closed after what waits was sent.
    func take(_ bytes: Span<UInt8>) -> Bool

    /// Answers on the stream that the request came on. Nothing happens if the stream is gone.
    func answer(_ answer: SandboxAnswer, on number: Int32)

    /// Tells the peer that no more requests are taken and, with a number, that the request on this stream was not
    /// looked at.
    func goAway(refusing number: Int32?)
}
