package android.app;

public class Notification {}
